"""Settings of the command that improves summaries; nothing is asked unless one is named."""

from dataclasses import field

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SummarizerSettings:
    """The command that improves the texts of the tree and of topics, and the limits of its cost."""

    command: str = field(
        default="",
        metadata={
            "help": "A command line that improves titles, bullets and labels of topics afterwards: it reads JSON on standard "
            "input and writes JSON on standard output. Empty: nothing is asked."
        },
    )
    model: str = field(
        default="", metadata={"help": "The model's name as it is shown and counted; empty: the command's first word."}
    )
    daily_tokens: int = field(default=200_000, metadata={"help": "Tokens, in and out, that may be spent in a day of the store."})
    concurrency: int = field(default=1, metadata={"help": "Nodes and topics asked about at a time."})
    timeout_secs: int = field(default=120, metadata={"help": "An answer is waited for no longer than this."})
    retries: int = field(
        default=3, metadata={"help": "Further tries of one question, each later, before the job rests until its next run."}
    )

    def __post_init__(self) -> None:
        for name, least, most in (("concurrency", 1, 8), ("timeout_secs", 1, 3600), ("retries", 0, 10)):
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"summarizer.{name} must lie between {least} and {most}")
        if self.daily_tokens < 0:
            raise ConfigError("summarizer.daily_tokens cannot be negative", "0 asks for nothing at all.")
        if len(self.model) > 200 or self.model != self.model.strip():
            raise ConfigError("summarizer.model must be a name of at most 200 characters without spaces around it")
        import shlex

        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ConfigError(f"summarizer.command cannot be read: {error}", "Close every quotation mark.") from None
        if self.command and not words:
            raise ConfigError("summarizer.command is blank", "Name a command line, or take the setting out.")

    @property
    def is_on(self) -> bool:
        """Whether a command is asked."""
        return bool(self.command)

    @property
    def provider(self) -> str:
        """Who writes summaries, as requests report it."""
        return "command" if self.command else "extractive"

    @property
    def name(self) -> str:
        """The model's name, else the command's program."""
        return self.model or (self.command.split()[0].rpartition("/")[2] if self.command else "")
