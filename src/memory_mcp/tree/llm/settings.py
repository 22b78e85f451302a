"""Settings of the summarizer that uses a language model; off unless a provider is named."""

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from memory_mcp.base.errors import ConfigError

#: The providers of answers; with the extractive summarizer none is used.
OFF, OPENAI, ANTHROPIC, COMMAND = "extractive", "openai", "anthropic", "command"
_PROVIDERS = (OFF, OPENAI, ANTHROPIC, COMMAND)
_LOOPBACK = re.compile(r"localhost|127(?:\.\d{1,3}){3}|::1")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
#: A longer name is taken for a key that was put in the wrong place, and so is one long run of letters and digits.
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class SummarizerSettings:
    """The model that improves the texts of the tree and of topics, and the limits of its cost."""

    provider: str = field(
        default=OFF,
        metadata={
            "help": "Who improves titles, bullets and labels of topics afterwards: extractive (nobody), openai (any endpoint "
            "that speaks as OpenAI's: Ollama, llama.cpp, vLLM), anthropic, or command."
        },
    )
    url: str = field(
        default="",
        metadata={"help": "Base address for openai and anthropic, such as http://localhost:11434/v1; nothing else is asked."},
    )
    model: str = field(
        default="", metadata={"help": "The model's name, as the endpoint knows it; of a command only the name shown."}
    )
    api_key_env: str = field(
        default="",
        metadata={"help": "Name of the environment variable that holds the key, never the key; empty: no key is sent."},
    )
    allow_http: bool = field(
        default=False, metadata={"help": "Let plain http go to another machine than this one, such as an Ollama in the LAN."}
    )
    command: str = field(
        default="",
        metadata={"help": "For command: a command line that takes the prompt on stdin and answers on stdout: claude -p."},
    )
    daily_tokens: int = field(default=200_000, metadata={"help": "Tokens, in and out, that may be spent in a day of the store."})
    concurrency: int = field(default=1, metadata={"help": "Nodes and topics asked about at a time."})
    timeout_secs: int = field(default=120, metadata={"help": "An answer is waited for no longer than this."})
    retries: int = field(
        default=3, metadata={"help": "Further tries of one question, each later, before the job rests until its next run."}
    )

    def __post_init__(self) -> None:
        """Raise ConfigError for a value out of its range, and for what the provider needs and lacks, or cannot use.

        A key in place of its variable's name is refused without being repeated; see `_check_command`, `_check_endpoint`.
        """
        if self.provider not in _PROVIDERS:
            raise ConfigError(f"summarizer.provider must be one of {', '.join(_PROVIDERS)}, not {self.provider!r}")
        for name, least, most in (("concurrency", 1, 8), ("timeout_secs", 1, 3600), ("retries", 0, 10)):
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"summarizer.{name} must lie between {least} and {most}")
        if self.daily_tokens < 0:
            raise ConfigError("summarizer.daily_tokens cannot be negative", "0 asks for nothing at all.")
        if len(self.model) > 200 or self.model != self.model.strip():
            raise ConfigError("summarizer.model must be a name of at most 200 characters without spaces around it")
        if self.api_key_env and (len(self.api_key_env) > _LONGEST_NAME or not _VARIABLE.fullmatch(self.api_key_env)):
            # What was given may be a key: it is not repeated.
            raise ConfigError(
                "summarizer.api_key_env must be the name of an environment variable, not a key",
                "Put the key into a variable of the environment and name that variable.",
            )
        if self.provider == COMMAND:
            self._check_command()
        elif self.provider != OFF:
            self._check_endpoint()

    @property
    def is_on(self) -> bool:
        """Whether a model is used: the provider is another than extractive."""
        return self.provider != OFF

    @property
    def name(self) -> str:
        """The name of the model as shown to readers: the setting, else the command's first word without its folder, else ""."""
        return self.model or (self.command.split()[0].rpartition("/")[2] if self.command else "")

    @property
    def address(self) -> SplitResult:
        """The setting `url` split into its parts; raises ValueError for a broken one, and so may the `port` of the result."""
        return urlsplit(self.url)

    def _check_command(self) -> None:
        """Raise ConfigError unless there is a command line that can be split, and neither url nor api_key_env."""
        import shlex

        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ConfigError(f"summarizer.command cannot be read: {error}", "Close every quotation mark.") from None
        if not words:
            raise ConfigError(
                'summarizer.provider = "command" needs summarizer.command', 'Name a command line, such as "claude -p".'
            )
        for name in ("url", "api_key_env"):
            if getattr(self, name):
                raise ConfigError(
                    f'summarizer.{name} means nothing to provider "command"',
                    f"Take summarizer.{name} out, or choose the provider openai or anthropic.",
                )

    def _check_endpoint(self) -> None:
        """Raise ConfigError unless url and model are set, without a command, and the url may be used.

        It must be http(s) with a host and no name, password, query or fragment; https, unless it is this machine's or
        `allow_http` is set.
        """
        if self.command:
            raise ConfigError(
                f'summarizer.command means nothing to provider "{self.provider}"',
                'Take summarizer.command out, or set summarizer.provider = "command".',
            )
        example = "https://api.anthropic.com" if self.provider == ANTHROPIC else "http://localhost:11434/v1"
        for name, such in (("url", example), ("model", "the name of a model there")):
            if not getattr(self, name):
                raise ConfigError(f'summarizer.provider = "{self.provider}" needs summarizer.{name}', f"Set it to {such}.")
        try:
            host, port, scheme = self.address.hostname or "", self.address.port, self.address.scheme
        except ValueError as error:
            raise ConfigError(f"summarizer.url cannot be read: {error}", f"It looks like {example}.") from None
        if scheme not in ("http", "https") or not host or port == 0:
            raise ConfigError("summarizer.url must begin with https:// or http:// and a host", f"It looks like {example}.")
        if self.address.username is not None or self.address.query or self.address.fragment:
            raise ConfigError(
                "summarizer.url must hold neither a name and password nor a query",
                "A key goes into an environment variable that summarizer.api_key_env names.",
            )
        if scheme == "http" and not self.allow_http and not _LOOPBACK.fullmatch(host):
            raise ConfigError(
                f"summarizer.url would send what was said to {host} without encryption",
                "Use https://, or set summarizer.allow_http = true for a machine of your own network.",
            )
