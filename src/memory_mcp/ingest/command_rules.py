"""Rules for passwords handed to a program by an option of its own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memory_mcp.ingest.secret_rules import Span
from memory_mcp.ingest.secret_values import is_placeholder

_QUOTE = r"\\?[\"'`]"
#: A value on a command line: quoted, or up to a blank.
_WORD = r"(?:\\?[\"'](?P<secret>[^\"'\\\r\n]{4,200})|(?P<plain>[^\s\"'`|;&<>()$\\-][^\s\"'`|;&<>()\\]{3,200}))"
_REST = r"[^\n|;&]{0,200}?"
#: Rule, what must stand in the text, and the pattern up to the value; manual pages of the programs.
_COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("mysql", "mysql mariadb", rf"\b(?:mysql|mariadb)(?:dump|admin|import|show|check|-dump|-admin)?\b{_REST}\s-p"),
    ("sshpass", "sshpass", r"\bsshpass\s+-p\s*"),
    ("redis", "redis-cli", rf"\bredis-cli\b{_REST}\s(?:-a|--pass)\s+"),
    ("mongo", "mongo", rf"\bmongo(?:sh|dump|restore|export|import|stat|top)?\b{_REST}\s-p\s+"),
    ("ldap", "ldap", rf"\bldap(?:search|modify|add|delete|passwd|whoami|compare|modrdn)\b{_REST}\s-w\s+"),
    ("smb", "smbclient rpcclient", rf"\b(?:smbclient|rpcclient)\b{_REST}\s-U\s*{_QUOTE}?[\w.\\-]+%"),
    ("openssl", "-passin -passout", r"-pass(?:in|out)\s+pass:"),
    ("archive", "zip rar 7z", rf"\b(?:(?:un)?zip\b{_REST}\s-P\s*|(?:7z[ar]?|unrar|rar)\b{_REST}\s-p)"),
    ("registry", "login", r"\b(?:docker|podman|helm|nerdctl|skopeo|buildah)\b[^\n|;&]{0,40}?\blogin\b[^\n|;&]{0,80}?\s-p\s+"),
    ("rdp", "freerdp", rf"\b[xw]l?freerdp\b{_REST}\s/p:"),
    ("rdp", "rdesktop", rf"\brdesktop\b{_REST}\s-p\s*"),
    ("ssh", "plink pscp psftp", rf"\b(?:plink|pscp|psftp)\b{_REST}\s-pw\s+"),
    ("ssh", "ssh-keygen", rf"\bssh-keygen\b{_REST}\s-[NP]\s+"),
    ("mqtt", "mosquitto", rf"\bmosquitto_(?:pub|sub|rr)\b{_REST}\s(?:-P|--pw)\s+"),
    ("ftp", "ncftp", rf"\bncftp(?:put|get|ls)?\b{_REST}\s-p\s+"),
    ("ftp", "lftp", rf"\blftp\b{_REST}\s-u\s*{_QUOTE}?[^\s,]{{1,64}},"),
    ("sql", "sqlcmd bcp isql", rf"\b(?:sqlcmd|bcp|isql)\b{_REST}\s-P\s*"),
    ("azure", "az login", rf"\baz\s+login\b{_REST}\s-p\s+"),
    ("twine", "twine", rf"\btwine\s+upload\b{_REST}\s-p\s+"),
    ("openssl", "openssl", rf"\bopenssl\s+\w+\b{_REST}\s-[kK]\s+"),
    ("java", "keytool jarsigner", r"-(?:store|key|srcstore|deststore|srckey|destkey)pass\s+"),
    ("winrm", "evil-winrm crackmapexec netexec nxc", rf"\b(?:evil-winrm|crackmapexec|netexec|nxc)\b{_REST}\s-p\s+"),
    ("htpasswd", "htpasswd", r"\bhtpasswd\s+-\w*b\w*\s+(?:-\w+\s+)*\S+\s+\S+\s+"),
)
_COMMAND_WORDS = tuple(
    (word, row)
    for name, words, start in _COMMANDS
    for row in [(re.compile(start + _WORD), name, tuple(words.split()))]
    for word in words.split()
)
#: The options they are handed over by; many texts have others only.
_OPTION = re.compile(r"-(?:[pauwkn](?<=\s-.)|-p(?:w|ass)|pw|\w{0,9}pass|\w{0,8}b\w{0,8}\s)").search


@dataclass(frozen=True, slots=True)
class CommandRule:
    """Passwords handed to a program by an option of its own."""

    name: str = "command"
    #: The names of programs are words of every day; their options stand in command lines only.
    anchors: tuple[str, ...] = (r"~ -(?:[pauwcnb-]|k |\w{0,7}pass )", " /p:")

    def find(self, text: str, lowered: str) -> Iterator[Span]:
        """Yield the places of passwords given by options such as -p, in the line with the program's name or the next one.

        Placeholders and variables are none. `lowered` is the text in lower case.
        """
        if not (_OPTION(lowered) or "/p:" in lowered):
            return
        for pattern, name, words in dict.fromkeys([row for word, row in _COMMAND_WORDS if word in lowered]):
            for start, end in _lines(lowered, words):
                for match in pattern.finditer(text, start, end):
                    group = "secret" if match["secret"] is not None else "plain"
                    if not is_placeholder(match[group]) and not match[group].startswith("$"):
                        yield Span(match.start(group), match.end(group), name)


def _lines(lowered: str, words: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Yield the spans of lines that hold one of the words, each with the next line; each such line once.

    Only those with an option ("-" or "/p:") behind the word; the texts are in lower case.
    """
    end = 0
    for at in sorted(found.start() for word in words for found in re.finditer(re.escape(word), lowered)):
        if at < end:
            continue
        start = lowered.rfind("\n", 0, at) + 1
        end = lowered.find("\n", at) + 1 or len(lowered)
        stop = lowered.find("\n", end) + 1 or len(lowered)
        if lowered.find("-", at, stop) >= 0 or lowered.find("/p:", at, stop) >= 0:
            yield start, stop
