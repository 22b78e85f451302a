"""The section `team` of the settings: how callers prove who they are, and how much each tenant may use."""

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, TypeVar
from urllib.parse import urlsplit

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError

_T = TypeVar("_T")

#: Hosts of an issuer that may be reached without TLS.
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_AUTH = ("", "oauth", "keys", "both")
_JOIN = ("", "claim")
_ROLES = ("reader", "writer", "curator", "admin")


def setting(default: _T, text: str, **metadata: Any) -> _T:
    """Return the dataclass field of a setting."""
    return field(default=default, metadata={"help": text, **metadata})


def _limit(default: int, text: str) -> int:
    return setting(default, f"{text}; 0: no limit.")


_CALLS, _OWN_CALLS = "Requests a minute of a whole tenant", "Requests a minute of one member"
_SEARCHES = "Searches a minute of a tenant"
_EVENTS, _MEGABYTES = "Events that a tenant records a day", "Text that a tenant records a day, in megabytes"
_STORED = "Events that a tenant has in all its spaces together"


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """How much a tenant may use; 0 is no limit.

    Each server counts for itself, except stored events.
    """

    calls_per_minute: int = _limit(3000, _CALLS)
    member_calls_per_minute: int = _limit(600, _OWN_CALLS)
    searches_per_minute: int = _limit(1200, _SEARCHES)
    events_per_day: int = _limit(500_000, _EVENTS)
    megabytes_per_day: int = _limit(1000, _MEGABYTES)
    stored_events: int = _limit(0, _STORED)

    def __post_init__(self) -> None:
        for item in fields(self):
            if getattr(self, item.name) < 0:
                raise ConfigError(f"team.limits: {item.name} must be 0 (no limit) or more")


@dataclass(frozen=True, slots=True)
class SmallLimits(TenantLimits):
    """The limits of the class small."""

    calls_per_minute: int = _limit(600, _CALLS)
    member_calls_per_minute: int = _limit(200, _OWN_CALLS)
    searches_per_minute: int = _limit(240, _SEARCHES)
    events_per_day: int = _limit(50_000, _EVENTS)
    megabytes_per_day: int = _limit(100, _MEGABYTES)


@dataclass(frozen=True, slots=True)
class LargeLimits(TenantLimits):
    """The limits of the class large."""

    calls_per_minute: int = _limit(30_000, _CALLS)
    member_calls_per_minute: int = _limit(3000, _OWN_CALLS)
    searches_per_minute: int = _limit(12_000, _SEARCHES)
    events_per_day: int = _limit(5_000_000, _EVENTS)
    megabytes_per_day: int = _limit(10_000, _MEGABYTES)


@dataclass(frozen=True, slots=True)
class TeamLimits:
    """The limits of each class of tenants."""

    small: SmallLimits = field(default_factory=SmallLimits)
    standard: TenantLimits = field(default_factory=TenantLimits)
    large: LargeLimits = field(default_factory=LargeLimits)


@dataclass(frozen=True, slots=True)
class TeamServerSettings:
    """How much one team server keeps open, and when it ends calls."""

    workers: int = setting(
        2, "Pieces of work (deriving, rolling up) that this server does at a time; 0: it leaves them to others."
    )
    open_spaces: int = setting(512, "Spaces that are kept open at most; more are open only while they are in use.")
    memory_mb: int = setting(1024, "Memory that open spaces and their indexes may take, as estimated, in megabytes.")
    disk_mb: int = setting(4096, "Disk that indexes below the data directory may take, in megabytes.")
    idle_secs: int = setting(600, "A space that was not used for so long is closed.")
    drain_secs: int = setting(20, "How long calls under way may still take when the server is asked to end.")
    notice_secs: int = setting(2, "How long the server still takes calls, and says it is not ready, when it is asked to end.")
    metrics_token: str = setting("", "Bearer token of /metrics; empty: only callers on this machine may read them.")

    def __post_init__(self) -> None:
        for name, least in {"workers": 0, "open_spaces": 1, "memory_mb": 16, "disk_mb": 16, "idle_secs": 1}.items():
            if getattr(self, name) < least:
                raise ConfigError(f"team.server.{name} must be at least {least}")
        if not 0 <= self.drain_secs <= 600 or not 0 <= self.notice_secs <= 600:
            raise ConfigError("team.server.drain_secs and notice_secs must be between 0 and 600")


#: Classes of tenants: what limits and metrics separate them by.
CLASSES = tuple(item.name for item in fields(TeamLimits))


@dataclass(frozen=True, slots=True)
class TeamSettings:
    """Who may use a memory that many people share."""

    auth: str = setting("", "How callers of the team server prove who they are: oauth, keys or both; empty: there is no team.")
    issuer: str = setting("", "URL of the OpenID provider whose tokens count, as it calls itself (oauth).")
    audience: str = setting("", "Public URL of this server's MCP endpoint, which tokens must be made for (oauth).")
    tenant: str = setting("", "Tenant of every token; empty: the token's claim names it (oauth).")
    tenant_claim: str = setting("", "Claim of a token that names the tenant, such as org (oauth).")
    join: str = setting(
        "", "Who becomes a member: empty: whom an administrator added; claim: everyone who has a token for the tenant (oauth)."
    )
    join_spaces: str = setting("", "Spaces that who joins by claim may use, each with a role, such as team:writer, docs:reader.")
    algorithms: str = setting("RS256, ES256, EdDSA", "Signature algorithms of tokens that count, separated by commas (oauth).")
    leeway_secs: int = setting(30, "How far the clocks of provider and server may differ (oauth).")
    keys_max_age_secs: int = setting(86_400, "How long known signing keys count while the provider cannot be reached (oauth).")
    replica_url: str = setting(
        "", "Address of a read replica of the database, which reading goes to; empty: the primary.", is_address=True
    )
    tombstones_dir: str = setting(
        "",
        "Folder outside the database where each server also notes what was forgotten, without a word of it, for the "
        "restore of an older backup; empty: none.",
    )
    limits: TeamLimits = field(default_factory=TeamLimits)
    server: TeamServerSettings = field(default_factory=TeamServerSettings)

    def __post_init__(self) -> None:
        if self.auth not in _AUTH:
            raise ConfigError(f"team.auth must be oauth, keys, both or empty, not {self.auth!r}")
        if self.join not in _JOIN:
            raise ConfigError(f"team.join must be claim or empty, not {self.join!r}")
        if not 0 <= self.leeway_secs <= 300:
            raise ConfigError("team.leeway_secs must be between 0 and 300")
        if self.keys_max_age_secs < 300:
            raise ConfigError("team.keys_max_age_secs must be at least 300")
        if bad := [name for name in self.allowed_algorithms if name == "none" or name.startswith("HS")]:
            # A provider's key is public: with HS* it would be the secret, and anybody could sign.
            raise ConfigError(
                f"team.algorithms must name algorithms with a private key, not {bad[0]}", "Use RS256, ES256 or EdDSA."
            )
        if wrong := [role for _, role in self.joins if role not in _ROLES]:
            hint = f"Write SPACE:ROLE, such as team:writer; roles are {', '.join(_ROLES)}."
            raise ConfigError(f"team.join_spaces names no role: {wrong[0]!r}", hint)
        if self.takes_tokens:
            self._check_oauth()

    def _check_oauth(self) -> None:
        """Check what OAuth needs; http is allowed for addresses of this machine."""
        for name, url in (("issuer", self.issuer), ("audience", self.audience)):
            parts = urlsplit(url)
            safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
            if not safe or not parts.hostname or parts.fragment or parts.query:
                hint = f"Set team.{name} to an https URL without query, such as https://memory.example/mcp."
                raise ConfigError(f"team.{name} cannot be used: {url!r}", hint)
        if bool(self.tenant) == bool(self.tenant_claim):
            hint = "Set team.tenant where all callers are of one tenant, team.tenant_claim where their tokens name it."
            raise ConfigError("team.auth with OAuth needs team.tenant or team.tenant_claim, and not both", hint)
        if not self.allowed_algorithms:
            raise ConfigError("team.algorithms names no algorithm", "Use RS256, ES256 or EdDSA.")

    @property
    def takes_tokens(self) -> bool:
        """Whether tokens of the OpenID provider count."""
        return self.auth in ("oauth", "both")

    @property
    def takes_keys(self) -> bool:
        """Whether API keys count."""
        return self.auth in ("keys", "both")

    @property
    def allowed_algorithms(self) -> tuple[str, ...]:
        """The signature algorithms in the setting, known or not."""
        return tuple(name for part in self.algorithms.split(",") if (name := part.strip()))

    @property
    def joins(self) -> tuple[tuple[str, str], ...]:
        """The spaces of members that join by claim, each as (space, role)."""
        parts = (part.partition(":") for part in self.join_spaces.split(",") if part.strip())
        return tuple((space.strip(), role.strip()) for space, _, role in parts)

    def limits_of(self, tenant_class: str) -> TenantLimits:
        """Return the limits of a class, else of `standard`."""
        limits: TenantLimits = getattr(self.limits, tenant_class if tenant_class in CLASSES else "standard")
        return limits


def team_settings(sections: Mapping[str, Any]) -> TeamSettings:
    """Return the section `team` of `Settings.extensions`, else the defaults."""
    section: TeamSettings = sections.get("team") or TeamSettings()
    return section
