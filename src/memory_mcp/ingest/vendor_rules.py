"""Rules for tokens that are told by their own form: a vendor's prefix and an alphabet.

The patterns of detect-secrets are used where their time is linear, and loaded when an anchor of theirs is met; the
table adds vendors and newer forms they do not know. Left to rules of our own, because theirs can take quadratic time or
stop in the middle of a token: JWTs, basic authentication, keywords, OpenAI, npm, GitLab, Cloudant, IBM and SoftLayer.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from memory_mcp.ingest.secret_rules import BEGIN, PatternRule, Rule, Span

_WORD = "A-Za-z0-9_-"

#: Rule, anchors, pattern behind BEGIN. A token ends where its alphabet does, so that none is replaced by half.
_TOKENS: tuple[tuple[str, str, str], ...] = (
    ("anthropic", "sk-ant-", rf"sk-ant-[{_WORD}]{{16,}}+"),
    ("openai", "sk-proj- sk-svcacct- sk-admin-", rf"sk-(?:proj|svcacct|admin)-[{_WORD}]{{16,}}+"),
    ("openrouter", "sk-or-", rf"sk-or-[{_WORD}]{{20,}}+"),
    ("openai", "~sk-[a-z0-9]{20}", r"sk-(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{20,}+(?![_-])"),
    ("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,}+"),
    ("github", "github_pat_", r"github_pat_[A-Za-z0-9_]{30,}+"),
    (
        "gitlab",
        "~gl[a-z]{2,5}-[a-z0-9_-]{16}",
        rf"gl(?:pat|dt|ft|ffct|soat|rt|rtr|ptt|imt|agent|oas|cbt|wt)-[{_WORD}]{{16,}}+(?:\.[{_WORD}]+){{0,3}}",
    ),
    ("gitlab", "gr1348941", rf"GR1348941[{_WORD}]{{20,}}+"),
    ("aws-access-key", "akia asia abia acca", r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![A-Za-z0-9])"),
    ("google", "aiza", rf"AIza[{_WORD}]{{35}}(?![{_WORD}])"),
    ("google", "gocspx-", rf"GOCSPX-[{_WORD}]{{20,}}+"),
    ("google", "ya29.", rf"ya29\.[{_WORD}]{{20,}}+"),
    ("google", "1//0", rf"1//0[{_WORD}]{{30,}}+"),
    ("slack", "xox", r"xox[a-z](?:\.xox[a-z])?-(?=[A-Za-z-]{0,40}\d)[A-Za-z0-9-]{10,}+"),
    ("slack", "xapp-", r"xapp-\d-[A-Za-z0-9-]{10,}+"),
    ("slack", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_+-]{16,}+"),
    ("stripe", "k_live_ k_test_ k_prod_", r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}+"),
    ("stripe", "whsec_", r"whsec_[A-Za-z0-9+/=]{20,}+"),
    ("npm", "npm_", r"npm_[A-Za-z0-9]{30,}+"),
    ("pypi", "pypi-", rf"pypi-[{_WORD}]{{40,}}+"),
    ("huggingface", "hf_", r"hf_[A-Za-z0-9]{30,}+"),
    ("huggingface", "api_org_", r"api_org_[A-Za-z0-9]{30,}+"),
    ("azure", "accountkey= sharedaccesskey=", r"(?:Account|SharedAccess)Key=[A-Za-z0-9+/]{40,}+={0,2}"),
    ("azure", "sig=", r"sig=[A-Za-z0-9%+/]{40,}+={0,2}"),
    ("azure", "8q~", r"[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}"),
    ("sendgrid", r"~sg\.[a-z0-9_-]{16}", rf"SG\.[{_WORD}]{{16,64}}\.[{_WORD}]{{16,}}+"),
    ("mailgun", "~key-[0-9a-f]{32}", r"key-[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("telegram", ":aa", rf"\d{{8,10}}:AA[{_WORD}]{{33}}(?![{_WORD}])"),
    ("discord", "webhooks/", rf"discord(?:app)?\.com/api/webhooks/\d{{15,}}/[{_WORD}]{{30,}}+"),
    ("digitalocean", "_v1_", r"do[opr]_v1_[0-9a-f]{32,}+"),
    ("databricks", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?(?![0-9A-Za-z])"),
    ("linear", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}+"),
    ("figma", "figd_", rf"figd_[{_WORD}]{{30,}}+"),
    ("groq", "gsk_", r"gsk_[A-Za-z0-9]{40,}+"),
    ("replicate", "r8_", r"r8_[A-Za-z0-9]{30,}+"),
    ("xai", "xai-", r"xai-[A-Za-z0-9]{40,}+"),
    ("perplexity", "pplx-", r"pplx-[A-Za-z0-9]{40,}+"),
    ("tavily", "tvly-", r"tvly-[A-Za-z0-9-]{20,}+"),
    ("langsmith", "lsv2_", r"lsv2_(?:pt|sk)_[A-Za-z0-9_]{30,}+"),
    ("vault", "hvs. hvb.", rf"hv[sb]\.[{_WORD}]{{20,}}+"),
    ("docker", "dckr_", rf"dckr_(?:pat|oat)_[{_WORD}]{{20,}}+"),
    ("shopify", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32,}+"),
    ("posthog", "phx_", r"phx_[A-Za-z0-9]{30,}+"),
    ("sentry", "sntrys_ sntryu_", r"sntry[su]_[A-Za-z0-9+/=_-]{30,}+"),
    ("supabase", "sbp_ sb_secret_", r"(?:sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,}+)"),
    ("age", "age-secret-key-", r"AGE-SECRET-KEY-1[0-9A-Z]{40,}+"),
    ("new-relic", "nrak-", r"NRAK-[A-Z0-9]{20,}+"),
    ("notion", "ntn_", r"ntn_[A-Za-z0-9]{30,}+"),
    ("airtable", r"~pat[a-z0-9]{14}\.[0-9a-f]{64}", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("doppler", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{30,}+"),
    ("pulumi", "pul-", r"pul-[0-9a-f]{40}(?![0-9A-Za-z])"),
    ("terraform", ".atlasv1.", rf"[A-Za-z0-9]{{14}}\.atlasv1\.[{_WORD}]{{50,}}+"),
    ("netlify", "nfp_", r"nfp_[A-Za-z0-9]{30,}+"),
    ("planetscale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,}+"),
    ("grafana", "glc_ glsa_", r"gl(?:c|sa)_[A-Za-z0-9+/=_]{30,}+"),
    ("postman", "pmak-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("fly", "fm1_ fm2_ fo1_", r"f[mo][12]_[A-Za-z0-9+/=_,-]{40,}+"),
    ("tailscale", "tskey-", r"tskey-[a-z]+-[A-Za-z0-9-]{16,}+"),
    ("atlassian", "atatt3 atctt3 atbb", r"AT(?:ATT3|CTT3|BB)[A-Za-z0-9_=+/-]{24,}+"),
    ("facebook", "eaacedeose0cba", r"EAACEdEose0cBA[A-Za-z0-9]{20,}+"),
    ("rubygems", "rubygems_", r"rubygems_[0-9a-f]{40,}+"),
    ("vercel", "vercel_blob_rw_", r"vercel_blob_rw_[A-Za-z0-9_]{20,}+"),
)

#: Detectors of detect-secrets: module, class, rule, anchors, and whether a token grows over its whole run of characters
#: (a vendor's prefix is unmistakable) or must stand alone (its form also occurs inside other data).
_DETECTORS: tuple[tuple[str, str, str, str, bool], ...] = (
    ("artifactory", "ArtifactoryDetector", "artifactory", "~akc[a-z0-9]{10}", False),
    ("aws", "AWSKeyDetector", "aws-access-key", "akia asia abia acca a3t", False),
    ("azure_storage_key", "AzureStorageKeyDetector", "azure", "accountkey=", True),
    ("discord", "DiscordBotTokenDetector", "discord", r"~\.[a-z0-9_-]{6}\.[a-z0-9_-]{27}", False),
    ("github_token", "GitHubTokenDetector", "github", "ghp_ gho_ ghu_ ghs_ ghr_", True),
    ("mailchimp", "MailchimpDetector", "mailchimp", "~-us[0-9]", False),
    ("pypi_token", "PypiTokenDetector", "pypi", "pypi-age", True),
    ("sendgrid", "SendGridDetector", "sendgrid", r"~sg\.[a-z0-9_-]{16}", True),
    ("slack", "SlackDetector", "slack", "xox hooks.slack.com", True),
    ("square_oauth", "SquareOAuthDetector", "square", "sq0csp-", True),
    ("stripe", "StripeDetector", "stripe", "k_live_", True),
    ("telegram_token", "TelegramBotTokenDetector", "telegram", ":aa", False),
    ("twilio", "TwilioKeyDetector", "twilio", "~(?:ac|sk)[0-9a-z]{32}", False),
)
_RUN = re.compile(f"[{_WORD}]*+")
_ESCAPED = ("\\n", "\\r", "\\t")


@dataclass(frozen=True, slots=True)
class DetectorRule:
    """The patterns of one detector of detect-secrets."""

    name: str
    anchors: tuple[str, ...]
    module: str
    detector: str
    grows: bool

    def find(self, text: str, _lowered: str) -> Iterator[Span]:
        """See `Rule`."""
        for pattern in _patterns(self.module, self.detector):
            done = 0
            for match in pattern.finditer(text):
                group = pattern.groups if pattern.groups and match[pattern.groups] and not self.grows else 0
                start, end = match.span(group)
                if start < done or (not self.grows and not _stands_alone(text, start, end)):
                    continue
                if self.grows and (rest := _RUN.match(text, end)):
                    end = rest.end()
                done = end
                yield Span(start, end, self.name)


def _stands_alone(text: str, start: int, end: int) -> bool:
    if end < len(text) and text[end].isalnum():
        return False
    return start == 0 or not text[start - 1].isalnum() or text[max(0, start - 2) : start] in _ESCAPED


@cache
def _patterns(module: str, detector: str) -> tuple[re.Pattern[str], ...]:
    # Imported on the first hit only: it brings an HTTP client with it and takes a third of a second.
    found = getattr(import_module(f"detect_secrets.plugins.{module}"), detector)
    return tuple(found.denylist)


VENDOR_RULES: tuple[Rule, ...] = (
    *(PatternRule(name, tuple(anchors.split()), re.compile(BEGIN + pattern)) for name, anchors, pattern in _TOKENS),
    *(
        DetectorRule(name, tuple(anchors.split()), module, detector, grows)
        for module, detector, name, anchors, grows in _DETECTORS
    ),
)
