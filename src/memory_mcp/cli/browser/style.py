"""How the browser is laid out. Colours are the terminal's own; focus and cursor are also seen without any."""

CSS = """
#top { height: 1; }
#scope { width: auto; max-width: 45%; padding: 0 1; text-style: bold; text-overflow: ellipsis; text-wrap: nowrap; }
#search { width: 1fr; height: 1; padding: 0 1; background: ansi_default; }
#search:focus { text-style: bold; }
#body { height: 1fr; }
#left { width: 44%; layout: vertical; }
#tree, #results, #page { border-top: solid ansi_bright_black; height: 1fr; max-height: 100%; background: ansi_default; }
#tree, #results, #page { scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; overflow-x: hidden; }
#results, #page { scrollbar-gutter: stable; }
#tree:focus, #results:focus, #page:focus { border-top: heavy ansi_green; border-title-style: bold; }
#results { display: none; }
.-found #tree { height: 1fr; }
.-found #results { height: 2fr; }
.-found #tree:focus { height: 2fr; }
#page { width: 1fr; margin-left: 1; }
Screen.-wide #left { width: 38%; }
Screen.-wide.-found #left { width: 62%; layout: horizontal; }
Screen.-wide.-found #tree, Screen.-wide.-found #results { width: 1fr; height: 1fr; }
Screen.-wide.-found #results { margin-left: 1; }
Entries > .option-list--option-highlighted { background: ansi_default; color: ansi_default; text-style: none; }
Entries:focus > .option-list--option-highlighted { background: ansi_default; color: ansi_default; text-style: bold; }
Entries > .option-list--option-hover { background: ansi_default; text-style: underline; }
TimeTree > .tree--cursor, TimeTree:focus > .tree--cursor { background: ansi_default; color: ansi_default; }
TimeTree > .tree--cursor { text-style: bold underline; }
TimeTree:focus > .tree--cursor { text-style: reverse; }
Keys, Projects { align: center middle; }
#window { width: 76; max-width: 96%; height: auto; max-height: 90%; border: solid ansi_green; padding: 0 1; }
#window Entries { height: auto; max-height: 14; }
Footer { background: ansi_default; }
"""
