# ruff: noqa: E501 - a kind per line reads as the table it is
"""The kinds of secrets redaction is measured by: how a value of each looks, and in which surroundings it stands.

A format is written as text with runs in braces, `{a36}`: 36 characters of an alphabet named by a letter (`ALPHABETS`),
or `{w20-40}`. What stands before a bar is public (an address, a name), the rest is the secret. Each kind's vendor page is
the source of its format. The table was written before the rules that are measured by it.

Surroundings come in two halves: rules are written looking at the open ones, the held ones only measure.
"""

import base64
import hashlib
import random
import re
import string
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tests.ingest.secret_values import MADE

ALPHABETS = {
    "d": string.digits,
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "a": string.ascii_letters + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/",
    "z": string.ascii_lowercase,
    "B": string.ascii_uppercase + "234567",
    "5": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "6": "023456789acdefghjklmnpqrstuvwxyz",
}
UUID = "{h8}-{h4}-4{h3}-a{h3}-{h12}"

#: A token that is told by its own form may stand anywhere.
OPEN_TOKEN = (
    "export {N}={v}",
    '{"{c}": "{v}", "region": "eu"}',
    "I put {v} in the settings, please try again",
    "curl -H 'Authorization: Bearer {v}' https://api.shop.example/v1/items",
)
HELD_TOKEN = (
    "  {s}: '{v}'\n  debug: false",
    'client = Client("{v}", timeout=30)',
    "$ tool login {v}\nok, logged in",
    "use this one for the deploy: {v}.",
)
#: One that has no form of its own stands beside words that say what it is.
OPEN_LABELLED = (
    "{N}={v}",
    '{"name": "shop", "{c}": "{v}"}',
    "the {w} is {v} and it works on staging",
    'client = Client({s}="{v}")',
)
HELD_LABELLED = ("{s}: {v}\nregion: eu", "run it with --{k} {v} --verbose", "X-{H}: {v}\nAccept: */*", "here is my {w}: {v}")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: a label in words, a format or the name of a maker, its source, and surroundings of its own, if any."""

    name: str
    label: str
    form: str
    source: str
    open: tuple[str, ...]
    held: tuple[str, ...]

    def values(self, count: int, held: bool, seed: str = "kinds") -> Iterator[tuple[str, str]]:
        """`count` texts with the secret in each, the same each time."""
        contexts = self.held if held else self.open
        dice = random.Random(f"{seed} {self.name} {held}")
        # Kinds that share surroundings begin with different ones, so that a short sample sees all of them.
        first = int(hashlib.sha256(self.name.encode()).hexdigest(), 16)
        for n in range(count):
            public, _, secret = made(self.form, dice).rpartition("|")
            yield self._filled(contexts[(first + n) % len(contexts)], public + secret), secret

    def _filled(self, context: str, value: str) -> str:
        words = self.label.split()
        names = {
            "{N}": "_".join(words).upper(),
            "{c}": words[0] + "".join(w.capitalize() for w in words[1:]),
            "{s}": "_".join(words),
            "{k}": "-".join(words),
            "{H}": "-".join(w.capitalize() for w in words),
            "{w}": self.label,
        }
        for sign, name in names.items():
            context = context.replace(sign, name)
        return context.replace("{v64}", base64.b64encode(value.encode()).decode()).replace("{v}", value)


def made(form: str, dice: random.Random) -> str:
    """A value of a format."""
    if maker := MADE.get(form):
        return maker(dice)

    def run(match: re.Match[str]) -> str:
        least, most = int(match[2]), int(match[3] or match[2])
        # A machine's token has a digit somewhere; the first of a run is left to chance.
        return "".join(dice.choices(ALPHABETS[match[1]], k=dice.randint(least, most)))

    return re.sub(r"\{([a-zA-Z56])(\d+)(?:-(\d+))?\}", run, form.replace("UUID", UUID))


def remains(secret: str, text: str) -> bool:
    """Whether so much of a secret stands in `text` that it is not safe: half of a line of it, or of six words."""
    return any(piece in text for piece in pieces(secret))


def find_remaining(secrets: Iterable[str], text: str) -> set[str]:
    """Return the secrets that remain in a long text, as `remains` would say of each, in a few passes over it for all of them."""
    content, size = text.encode(), 8
    halves = {secret: [piece.encode() for piece in pieces(secret)] for secret in secrets}
    beginnings = np.array(sorted({half[:size] for group in halves.values() for half in group if len(half) >= size}), f"S{size}")
    # All stretches of eight bytes: those that begin at each of the first eight, in turn. Only where a half begins like one
    # is it looked for.
    wanted, present = np.unique(beginnings.view(np.uint64)), set[bytes]()
    for offset in range(min(size, len(content) // size)):
        stretches = np.frombuffer(content, np.uint64, (len(content) - offset) // size, offset)
        present |= {value.tobytes() for value in np.unique(stretches[np.isin(stretches, wanted)])}
    return {
        secret
        for secret, group in halves.items()
        if any(half in content for half in group if len(half) < size or half[:size] in present)
    }


def pieces(secret: str) -> Iterator[str]:
    """What must not be found: halves of each line, of which any is enough; a short one whole."""
    for line in map(str.strip, secret.splitlines()):
        if len(line) < 16:
            if len(line) >= 4:
                yield line
            continue
        half = (len(line) + 1) // 2
        for start in range(0, len(line) - half + 1, max(1, half // 4)):
            yield line[start : start + half]


def _tokens(table: str) -> Iterator[Kind]:
    for label, form, source in _rows(table):
        yield Kind(f"{label}", label, form, source, OPEN_TOKEN, HELD_TOKEN)


def _labelled(table: str) -> Iterator[Kind]:
    for label, form, source in _rows(table):
        yield Kind(f"{label}", label, form, source, OPEN_LABELLED, HELD_LABELLED)


def _rows(table: str) -> Iterator[tuple[str, str, str]]:
    for line in table.strip().splitlines():
        label, form, source = re.split(r" {2,}", line.strip())
        yield label, form, source


TOKENS = r"""
aws access key id  AKIA{B16}  docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
aws temporary key id  ASIA{B16}  docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
bedrock api key  ABSK{b132}  docs.aws.amazon.com/bedrock/latest/userguide/api-keys.html
google api key  AIza{w35}  cloud.google.com/docs/authentication/api-keys
google client secret  GOCSPX-{w28}  developers.google.com/identity/protocols/oauth2
google access token  ya29.{w120-180}  developers.google.com/identity/protocols/oauth2
google refresh token  1//0{w60-100}  developers.google.com/identity/protocols/oauth2
firebase server key  AAAA{w7}:APA91b{w134}  firebase.google.com/docs/cloud-messaging
azure client secret  {a3}8Q~{w34}  learn.microsoft.com/entra/identity-platform
azure devops token  {a76}AZDO{a4}  learn.microsoft.com/azure/devops/organizations/accounts
alibaba access key id  LTAI{a20}  www.alibabacloud.com/help/ram
tencent secret id  AKID{a32}  www.tencentcloud.com/document/product/598
yandex api key  AQVN{w36}  yandex.cloud/docs/iam/concepts/authorization/api-key
github token  ghp_{a36}  github.blog/engineering/behind-githubs-new-authentication-token-formats
github oauth  gho_{a36}  github.blog/engineering/behind-githubs-new-authentication-token-formats
github app user  ghu_{a36}  github.blog/engineering/behind-githubs-new-authentication-token-formats
github app server  ghs_{a36}  github.blog/engineering/behind-githubs-new-authentication-token-formats
github refresh  ghr_{a76}  github.blog/engineering/behind-githubs-new-authentication-token-formats
github fine grained  github_pat_{a22}_{a59}  docs.github.com/authentication
gitlab token  glpat-{w20}  docs.gitlab.com/security/tokens
gitlab deploy token  gldt-{w20}  docs.gitlab.com/security/tokens
gitlab runner token  glrt-{w20}  docs.gitlab.com/security/tokens
gitlab trigger token  glptt-{h40}  docs.gitlab.com/security/tokens
bitbucket app password  ATBB{a28}{H8}  support.atlassian.com/bitbucket-cloud
atlassian api token  ATATT3xFfGF0{w180}={H8}  support.atlassian.com/atlassian-account
slack bot token  xoxb-{d12}-{d13}-{a24}  api.slack.com/concepts/token-types
slack user token  xoxp-{d12}-{d13}-{d13}-{h32}  api.slack.com/concepts/token-types
slack app token  xapp-1-A{u10}-{d13}-{h64}  api.slack.com/concepts/token-types
slack config token  xoxe.xoxp-1-{a163}  api.slack.com/concepts/token-types
slack webhook  https://hooks.slack.com/services/|T{u8}/B{u10}/{a24}  api.slack.com/messaging/webhooks
discord bot token  M{a23}.{w6}.{w38}  discord.com/developers/docs/reference
discord webhook  https://discord.com/api/webhooks/|{d18}/{w68}  discord.com/developers/docs/resources/webhook
teams webhook  https://contoso.webhook.office.com/webhookb2/|UUID@UUID/IncomingWebhook/{h32}/UUID  learn.microsoft.com/microsoftteams
telegram bot token  {d10}:AA{w33}  core.telegram.org/bots/api
twilio api key  SK{h32}  www.twilio.com/docs/iam/api-keys
sendgrid api key  SG.{w22}.{w43}  www.twilio.com/docs/sendgrid
mailgun api key  key-{h32}  documentation.mailgun.com
mailgun sending key  {h32}-{h8}-{h8}  documentation.mailgun.com
mailchimp api key  {h32}-us1{d1}  mailchimp.com/developer/marketing/guides/quick-start
brevo api key  xkeysib-{h64}-{a16}  developers.brevo.com/docs/getting-started
resend api key  re_{a8}_{a24}  resend.com/docs/api-reference/introduction
stripe secret key  sk_live_{a99}  docs.stripe.com/keys
stripe restricted key  rk_live_{a24}  docs.stripe.com/keys
stripe webhook secret  whsec_{a32}  docs.stripe.com/webhooks
square access token  EAAA{w60}  developer.squareup.com/docs/build-basics/access-tokens
square old token  sq0atp-{w22}  developer.squareup.com/docs/build-basics/access-tokens
square app secret  sq0csp-{w43}  developer.squareup.com/docs/oauth-api/overview
braintree token  access_token$production${l16}${h32}  developer.paypal.com/braintree/docs/guides/authorization
plaid access token  access-production-UUID  plaid.com/docs/api/tokens
shopify admin token  shpat_{h32}  shopify.dev/docs/apps/build/authentication-authorization
shopify shared secret  shpss_{h32}  shopify.dev/docs/apps/build/authentication-authorization
flutterwave secret key  FLWSECK_TEST-{h32}-X  developer.flutterwave.com/docs/authentication
mollie api key  live_{a30}  docs.mollie.com/reference/authentication
easypost api key  EZAK{a54}  docs.easypost.com/docs/authentication
shippo token  shippo_live_{h40}  docs.goshippo.com/docs/guides_general/authentication
npm token  npm_{a36}  docs.npmjs.com/about-access-tokens
pypi token  pypi-AgEIcHlwaS5vcmc{w130-160}  pypi.org/help
rubygems key  rubygems_{h48}  guides.rubygems.org/api-key-scopes
nuget key  oy2{l43}  learn.microsoft.com/nuget/nuget-org/publish-a-package
cargo token  cio{a32}  doc.rust-lang.org/cargo/reference/publishing.html
clojars token  CLOJARS_{h60}  github.com/clojars/clojars-web/wiki/Deploy-Tokens
docker hub token  dckr_pat_{w27}  docs.docker.com/security/access-tokens
jfrog api key  AKC{a70}  jfrog.com/help/r/jfrog-platform-administration-documentation
jfrog reference token  cmVmdGtu{a56}  jfrog.com/help/r/jfrog-platform-administration-documentation
circleci token  CCIPAT_{a22}_{h40}  circleci.com/docs/managing-api-tokens
buildkite token  bkua_{h40}  buildkite.com/docs/apis/managing-api-tokens
sonar token  sqp_{h40}  docs.sonarsource.com/sonarqube/latest/user-guide/managing-tokens
octopus key  API-{u26}  octopus.com/docs/octopus-rest-api/how-to-create-an-api-key
harness token  pat.{w22}.{h24}.{a20}  developer.harness.io/docs/platform/automation/api
pulumi token  pul-{h40}  www.pulumi.com/docs/pulumi-cloud/access-management/access-tokens
terraform token  {a14}.atlasv1.{w67}  developer.hashicorp.com/terraform/cloud-docs/users-teams-organizations/api-tokens
vault token  hvs.{w95}  developer.hashicorp.com/vault/docs/concepts/tokens
doppler token  dp.pt.{a43}  docs.doppler.com/reference/auth-token-formats
infisical token  st.{h24}.{h32}.{h32}  infisical.com/docs/documentation/platform/token
onepassword service token  ops_eyJ{w250}  developer.1password.com/docs/service-accounts
onepassword secret key  A3-{u6}-{u11}-{u5}-{u5}-{u5}  support.1password.com/secret-key-security
bitwarden token  0.UUID.{a30}:{b22}==  bitwarden.com/help/access-tokens
heroku api key  HRKU-AA{w58}  devcenter.heroku.com/articles/authentication
digitalocean token  dop_v1_{h64}  docs.digitalocean.com/reference/api/create-personal-access-token
fly token  fm2_{b180}  fly.io/docs/security/tokens
render key  rnd_{a32}  render.com/docs/api
netlify token  nfp_{a36}  docs.netlify.com/api/get-started
cloudflare origin ca  v1.0-{h24}-{h146}  developers.cloudflare.com/fundamentals/api/get-started/ca-keys
openai old key  sk-{a20}T3BlbkFJ{a20}  platform.openai.com/docs/api-reference/authentication
openai key  sk-proj-{w74}T3BlbkFJ{w74}  platform.openai.com/docs/api-reference/authentication
anthropic key  sk-ant-api03-{w93}AA  docs.claude.com/en/api/overview
deepseek key  sk-{h32}  api-docs.deepseek.com
openrouter key  sk-or-v1-{h64}  openrouter.ai/docs/api-reference/authentication
elevenlabs key  sk_{h48}  elevenlabs.io/docs/api-reference/authentication
huggingface token  hf_{a34}  huggingface.co/docs/hub/security-tokens
replicate token  r8_{a37}  replicate.com/docs/reference/http
memory-mcp key  mmk_{d3}_{h16}_{h64}  docs/team-access.md
groq key  gsk_{a52}  console.groq.com/docs/quickstart
perplexity key  pplx-{a48}  docs.perplexity.ai
xai key  xai-{a80}  docs.x.ai/docs/overview
pinecone key  pcsk_{a6}_{a63}  docs.pinecone.io/guides/projects/manage-api-keys
langfuse secret  sk-lf-UUID  langfuse.com/docs/api
langsmith key  lsv2_pt_{h32}_{h10}  docs.smith.langchain.com
neon key  napi_{l64}  neon.com/docs/manage/api-keys
mongodb service secret  mdb_sa_sk_{w40}  www.mongodb.com/docs/atlas/api/service-accounts
supabase token  sbp_{h40}  supabase.com/docs/guides/api/api-keys
planetscale password  pscale_pw_{w43}  planetscale.com/docs/concepts/service-tokens
databricks token  dapi{h32}  docs.databricks.com/dev-tools/auth/pat.html
newrelic user key  NRAK-{u27}  docs.newrelic.com/docs/apis/intro-apis/new-relic-api-keys
newrelic license key  {h36}NRAL  docs.newrelic.com/docs/apis/intro-apis/new-relic-api-keys
sentry org token  sntrys_eyJ{b150}_{b43}  docs.sentry.io/account/auth-tokens
grafana service token  glsa_{a32}_{h8}  grafana.com/docs/grafana/latest/administration/service-accounts
honeycomb key  hcaik_{l58}  docs.honeycomb.io/get-started/configure/environments/manage-api-keys
dynatrace token  dt0c01.{u24}.{u64}  docs.dynatrace.com/docs/manage/identity-access-management/access-tokens-and-oauth-clients
launchdarkly sdk key  sdk-UUID  launchdarkly.com/docs/home/account/environment/keys
notion old secret  secret_{a43}  developers.notion.com/docs/authorization
notion token  ntn_{d11}{a35}  developers.notion.com/docs/authorization
airtable token  pat{a14}.{h64}  airtable.com/developers/web/guides/personal-access-tokens
linear key  lin_api_{a40}  linear.app/developers
figma token  figd_{w40}  www.figma.com/developers/api
dropbox token  sl.{w136}  www.dropbox.com/developers/documentation/http/documentation
contentful token  CFPAT-{w43}  www.contentful.com/developers/docs/references/authentication
postman key  PMAK-{h24}-{h34}  learning.postman.com/docs/developer/postman-api/authentication
typeform token  tfp_{w44}_{w14}  www.typeform.com/developers/get-started/personal-access-token
hubspot token  pat-na1-UUID  developers.hubspot.com/docs/api/private-apps
mapbox secret  sk.eyJ1Ijoi{w60}.{w22}  docs.mapbox.com/help/getting-started/access-tokens
facebook token  EAA{a170}  developers.facebook.com/docs/facebook-login/guides/access-tokens
twitter bearer  AAAAAAAAAAAAAAAAAAAAA{a30}%2B{a40}%3D{a30}  developer.x.com/en/docs/authentication/oauth-2-0
prefect key  pnu_{a36}  docs.prefect.io/v3/manage/cloud/manage-users/api-keys
tailscale key  tskey-auth-{a12}CNTRL-{a32}  tailscale.com/kb/1085/auth-keys
readme key  rdme_{l70}  docs.readme.com/main/reference/authentication
age key  AGE-SECRET-KEY-1{u58}  age-encryption.org/v1
json web token  jwt  datatracker.ietf.org/doc/html/rfc7519
bitcoin extended key  xprv9{5106}  github.com/bitcoin/bips/blob/master/bip-0032.mediawiki
"""
LABELLED = r"""
aws secret access key  {b40}  docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_access-keys.html
aws session token  IQoJb3JpZ2luX2Vj{b300}  docs.aws.amazon.com/STS/latest/APIReference/API_GetSessionToken.html
azure openai api key  {h32}  learn.microsoft.com/azure/ai-services/openai/reference
azure function key  {w54}==  learn.microsoft.com/azure/azure-functions/function-keys-how-to
heroku api token  UUID  devcenter.heroku.com/articles/platform-api-reference
bitbucket client secret  {a32}  support.atlassian.com/bitbucket-cloud/docs/use-oauth-on-bitbucket-cloud
discord client secret  {w32}  discord.com/developers/docs/topics/oauth2
twilio auth token  {h32}  www.twilio.com/docs/iam/access-tokens
postmark server token  UUID  postmarkapp.com/developer/api/overview
paypal client secret  E{w79}  developer.paypal.com/api/rest/authentication
plaid secret  {h30}  plaid.com/docs/api
circleci api token  {h40}  circleci.com/docs/managing-api-tokens
buildkite agent token  {h50}  buildkite.com/docs/agent/v3/tokens
travis api token  {a22}  docs.travis-ci.com/user/triggering-builds
jenkins api token  11{h32}  www.jenkins.io/doc/book/system-administration/authenticating-scripted-clients
snyk token  UUID  docs.snyk.io/snyk-api/authentication-for-api
vercel token  {a24}  vercel.com/docs/rest-api
cloudflare api token  {w40}  developers.cloudflare.com/fundamentals/api/get-started/create-token
cloudflare api key  {h37}  developers.cloudflare.com/fundamentals/api/get-started/keys
fastly api token  {w32}  www.fastly.com/documentation/reference/api/auth-tokens
linode token  {h64}  techdocs.akamai.com/linode-api/reference/get-started
scaleway secret key  UUID  www.scaleway.com/en/docs/iam/concepts
alibaba secret key  {a30}  www.alibabacloud.com/help/ram
cohere api key  {a40}  docs.cohere.com/reference/about
mistral api key  {a32}  docs.mistral.ai/getting-started/quickstart
wandb api key  {h40}  docs.wandb.ai/quickstart
algolia admin key  {h32}  www.algolia.com/doc/guides/security/api-keys
datadog api key  {h32}  docs.datadoghq.com/account_management/api-app-keys
datadog app key  {h40}  docs.datadoghq.com/account_management/api-app-keys
confluent api secret  {b64}  docs.confluent.io/cloud/current/security/authenticate/workload-identities
okta api token  00{w40}  developer.okta.com/docs/guides/create-an-api-token
auth0 client secret  {w64}  auth0.com/docs/get-started/applications
spotify client secret  {h32}  developer.spotify.com/documentation/web-api
twitch client secret  {l30}  dev.twitch.tv/docs/authentication
ngrok auth token  2{a26}_{a21}  ngrok.com/docs/agent
ethereum private key  0x{h64}  ethereum.org/en/developers/docs/accounts
bitcoin private key  5{550}  en.bitcoin.it/wiki/Wallet_import_format
"""


def _own(name: str, form: str, source: str, *contexts: str) -> Kind:
    """A kind with surroundings of its own: the first half of them open, the second held."""
    half = (len(contexts) + 1) // 2
    return Kind(name, name, form, source, contexts[:half], contexts[half:])


_END = "-----END RSA PRIV" + "ATE KEY-----"
_RFC_KEYS = "datatracker.ietf.org/doc/html/rfc7468"
_MAN = "manual page of the program"
_HABIT = "how people write"

OWN: tuple[Kind, ...] = (
    _own("azure storage key", "{b86}==", "learn.microsoft.com/azure/storage/common/storage-configure-connection-string",
         "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={v};EndpointSuffix=core.windows.net",
         'CONN="AccountName=shop;AccountKey={v}"'),
    _own("azure bus key", "{b43}=", "learn.microsoft.com/azure/service-bus-messaging/service-bus-sas",
         "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={v}",
         "conn: Endpoint=sb://a.example/;SharedAccessKeyName=k;SharedAccessKey={v};EntityPath=q"),
    _own("azure sas", "{a41}%2B%3D", "learn.microsoft.com/azure/storage/common/storage-sas-overview",
         "https://shop.blob.core.windows.net/c/f?sv=2022-11-02&se=2026-01-01&sr=b&sp=r&sig={v}",
         "azcopy cp 'https://a.blob.core.windows.net/c?sp=rl&sig={v}' ."),
    _own("gcp service account", "pem-escaped", "cloud.google.com/iam/docs/keys-create-delete",
         '{"type": "service_account", "private_key_id": "x", "private_key": "{v}", "client_email": "a@b.example"}',
         '{\n  "type": "service_account",\n  "private_key": "{v}"\n}'),
    _own("rsa key", "pem RSA", _RFC_KEYS, "here is the key\n{v}\nplease install it", "cat id_rsa\n{v}"),
    _own("ec key", "pem EC", _RFC_KEYS, "{v}", 'KEY="{v}"'),
    _own("pkcs8 key", "pem", _RFC_KEYS, "server.key:\n{v}", "stringData:\n  tls.key: |\n{v}"),
    _own("openssh key", "pem OPENSSH", "github.com/openssh/openssh-portable/blob/master/PROTOCOL.key",
         "$ cat ~/.ssh/id_ed25519\n{v}\n$", "<key>{v}</key>"),
    _own("pgp key", "pgp", "datatracker.ietf.org/doc/html/rfc9580", "gpg --export-secret-keys -a\n{v}", "{v}\nthat is the key"),
    _own("putty key", "ppk", "the.earth.li/~sgtatham/putty/latest/htmldoc/AppendixC.html", "{v}", "file key.ppk:\n{v}\nend"),
    _own("openvpn key", "openvpn", "openvpn.net/community-resources/reference-manual-for-openvpn-2-6",
         "<tls-auth>\n{v}\n</tls-auth>", "ta.key is\n{v}"),
    _own("split key in code", "pem-code", _RFC_KEYS, "key = (\n{v}\n)", "const key = [\n{v}\n].join('')"),
    _own("quoted key", "pem-quoted", _RFC_KEYS, "You wrote:\n{v}\n\nis that right?", "diff --git a/key b/key\n{v}"),
    _own("key without begin", "pem-tail", _RFC_KEYS, f"the rest of it:\n{{v}}\n{_END}", f"[... cut ...]\n{{v}}\n{_END}\nok"),
    _own("ansible vault", "ansible", "docs.ansible.com/ansible/latest/vault_guide", "password: !vault |\n{v}", "{v}"),
    _own("kubernetes secret", "kube64", "kubernetes.io/docs/concepts/configuration/secret",
         "kind: Secret\nmetadata:\n  name: db\ndata:\n  password: {v}", "apiVersion: v1\nkind: Secret\ndata:\n  DB_PASS: {v}\ntype: Opaque"),
    _own("kubeconfig key", "{b400}==", "kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig",
         "users:\n- name: admin\n  user:\n    client-key-data: {v}", '"client-key-data": "{v}"'),
    _own("docker auth", "base64login", "docs.docker.com/reference/cli/docker/login",
         '{"auths": {"https://index.docker.io/v1/": {"auth": "{v}"}}}', '"registry.shop.example": {\n  "auth": "{v}"\n}'),
    _own("netrc", "pw", "everything.curl.dev/usingcurl/netrc.html",
         "machine api.shop.example login deploy password {v}", "machine github.example\n  login me\n  password {v}\n"),
    _own("mysql -p", "pw-shell", _MAN, "mysql -u root -p{v} shop", "mysqldump -h db -uadmin -p{v} --all-databases > all.sql"),
    _own("sshpass", "pw-shell", _MAN, "sshpass -p {v} ssh root@10.0.0.5", "sshpass -p '{v}' scp a.tgz deploy@web:/srv"),
    _own("redis-cli -a", "pw-shell", _MAN, "redis-cli -h cache -a {v} ping", "docker exec cache redis-cli -a '{v}' info"),
    _own("mongo -p", "pw-shell", _MAN, "mongosh --host db -u admin -p {v} admin", "mongodump -u backup -p '{v}' --db shop"),
    _own("PGPASSWORD", "pw-shell", "www.postgresql.org/docs/current/libpq-envars.html",
         "PGPASSWORD={v} psql -h db shop", "export PGPASSWORD='{v}' && pg_dump shop"),
    _own("pgpass", "pw-plain", "www.postgresql.org/docs/current/libpq-pgpass.html",
         "$ cat ~/.pgpass\ndb.shop.example:5432:shop:deploy:{v}", "localhost:5432:*:postgres:{v}"),
    _own("my.cnf", "pw-shell", "dev.mysql.com/doc/refman/8.0/en/option-files.html",
         "[client]\nuser=root\npassword={v}", "[mysqldump]\npassword = {v}\nuser = backup"),
    _own("curl -u", "pw-shell", _MAN, "curl -u deploy:{v} https://ci.shop.example/api", "curl -s --user 'admin:{v}' http://router.example/"),
    _own("wget password", "pw-shell", _MAN, "wget --user=me --password={v} https://a.example/f", "wget --http-password='{v}' https://a.example/f"),
    _own("ldapsearch -w", "pw-shell", _MAN, "ldapsearch -D cn=admin,dc=shop -w {v} -b dc=shop",
         "ldapmodify -x -D 'cn=root,dc=a' -w '{v}' -f x.ldif"),
    _own("smbclient", "pw-shell", _MAN, "smbclient //nas/share -U backup%{v}", "mount -t cifs //nas/s /mnt -o username=me,password={v}"),
    _own("openssl passin", "pw-shell", _MAN, "openssl rsa -in k.pem -passin pass:{v}",
         "openssl pkcs12 -export -passout pass:{v} -out a.p12"),
    _own("archive password", "pw-shell", _MAN, "unzip -P {v} backup.zip", "7z x -p{v} backup.7z"),
    _own("docker login", "pw-shell", _MAN, "docker login -u me -p {v} registry.example", "echo '{v}' | docker login -u me --password-stdin"),
    _own("chpasswd", "pw-plain", _MAN, "echo 'root:{v}' | chpasswd", 'echo "deploy:{v}" | sudo chpasswd'),
    _own("sudo -S", "pw-plain", _MAN, "echo {v} | sudo -S apt update", "echo '{v}' | sudo -S systemctl restart shop"),
    _own("wifi", "pw-plain", "w1.fi/cgit/hostap/plain/wpa_supplicant/wpa_supplicant.conf",
         'network={\n  ssid="home"\n  psk="{v}"\n}', 'nmcli dev wifi connect home password "{v}"'),
    _own("wireguard key", "{b43}=", "www.wireguard.com/quickstart", "[Interface]\nPrivateKey = {v}\nAddress = 10.0.0.1/24",
         "PresharedKey = {v}"),
    _own("session cookie", "{a32}", "datatracker.ietf.org/doc/html/rfc6265",
         "Cookie: theme=dark; sessionid={v}; lang=de", "Set-Cookie: PHPSESSID={v}; Path=/; HttpOnly",
         "curl -b 'sid={v}' https://shop.example", "curl https://shop.example --cookie \"session_id={v}\""),
    _own("signed cookie", "s%3A{w32}.{a43}", "www.npmjs.com/package/express-session",
         "Cookie: connect.sid={v}", "set-cookie: connect.sid={v}; Path=/"),
    _own("flask cookie", "eyJ{w40}.{w6}.{w27}", "flask.palletsprojects.com/en/stable/quickstart",
         "Cookie: session={v}", "document.cookie = 'session={v}; path=/'"),
    _own("basic authorization", "base64login", "datatracker.ietf.org/doc/html/rfc7617",
         "Authorization: Basic {v}", '{"headers": {"Authorization": "Basic {v}"}}'),
    _own("url password", "pw-plain", "datatracker.ietf.org/doc/html/rfc3986",
         "DATABASE_URL=postgres://shop:{v}@db.example:5432/shop", "git clone https://deploy:{v}@git.example/shop.git",
         "broker: amqp://guest:{v}@mq:5672/", "redis://:{v}@cache:6379/0"),
    _own("url password with signs", "pw-signs", "datatracker.ietf.org/doc/html/rfc3986",
         "DATABASE_URL=postgres://shop:{v}@db.example:5432/shop", "mysql://root:{v}@10.0.0.3/shop",
         'conn = create_engine("postgresql+psycopg://app:{v}@localhost/app")', "mongodb+srv://root:{v}@c0.mongodb.example/test"),
    _own("url token", "{h32}", "docs.sentry.io/concepts/key-terms/dsn-explainer",
         "SENTRY_DSN=https://{v}@o1234.ingest.sentry.io/5678", "pip install --index-url https://{v}@pypi.shop.example/simple x"),
    _own("cloudinary url", "cloudinary://{d15}:|{w27}@shop", "cloudinary.com/documentation/how_to_integrate_cloudinary",
         "CLOUDINARY_URL={v}", "cloudinary.config(url='{v}')"),
    _own("query token", "{a32}", "datatracker.ietf.org/doc/html/rfc6750",
         "GET /v1/items?access_token={v}&page=2", "https://maps.shop.example/tiles?api_key={v}"),
    _own("jdbc password", "pw-shell", "docs.oracle.com/javase/tutorial/jdbc/basics/connecting.html",
         "jdbc:mysql://db/shop?user=app&password={v}", "jdbc:sqlserver://db:1433;user=sa;password={v};encrypt=true"),
    _own("odbc pwd", "pw-plain", "learn.microsoft.com/sql/odbc/reference",
         "Driver={SQL Server};Server=db;Uid=sa;Pwd={v};", "Server=db;User Id=sa;Password={v};TrustServerCertificate=True"),
    _own("otpauth", "{B32}", "github.com/google/google-authenticator/wiki/Key-Uri-Format",
         "otpauth://totp/shop:me@example.org?secret={v}&issuer=shop", "the totp secret is {v}"),
    _own("json password", "pw-plain", _HABIT, '{"user": "me", "password": "{v}"}', '{"dbPassword":"{v}","host":"db"}'),
    _own("yaml password", "pw-plain", _HABIT, "db:\n  user: me\n  password: {v}\n", "spring.datasource.password: {v}"),
    _own("env password", "pw-shell", _HABIT, "DB_PASSWORD={v}", "ENV POSTGRES_PASSWORD={v}"),
    _own("code password", "pw-plain", _HABIT, 'connect(host="db", password="{v}")', "const DB_PASS = '{v}';"),
    _own("quoted passphrase", "phrase", _HABIT, 'passphrase: "{v}"', "export KEY_PASSPHRASE='{v}'",
         'gpg --batch --passphrase "{v}" -d a.gpg', '"password": "{v}"'),
    _own("told passphrase", "phrase", _HABIT, 'the passphrase is "{v}"', "my ssh key passphrase is '{v}', careful"),
    _own("told password", "pw-plain", _HABIT, "the password is {v}", "password for the staging db is {v}, user is shop",
         "the admin password: {v}", "log in as admin with password {v}"),
    _own("told password de", "pw-plain", _HABIT, "das Passwort ist {v}", "das Kennwort für den Server lautet {v}",
         "Passwort: {v}", "Das Passwort vom Router heißt jetzt {v}"),
    _own("told password fr", "pw-plain", _HABIT, "le mot de passe est {v}", "mot de passe : {v}",
         "le mot de passe du serveur est {v}, ne le dis pas"),
    _own("told password es", "pw-plain", _HABIT, "la contraseña es {v}", "contraseña: {v}", "la clave del servidor es {v}"),
    _own("told password pt it", "pw-plain", _HABIT, "a senha é {v}", "la password è {v}", "senha do banco: {v}"),
    _own("told password nl pl", "pw-plain", _HABIT, "het wachtwoord is {v}", "hasło to {v}", "hasło: {v}"),
    _own("told password ru", "pw-plain", _HABIT, "пароль: {v}", "пароль от базы {v}", "пароль такой: {v}"),
    _own("told password zh ja ko", "pw-plain", _HABIT, "密码是 {v}", "パスワードは {v} です", "비밀번호는 {v} 입니다", "数据库密码：{v}"),
    _own("bcrypt hash", "$2b$12${a53}", "en.wikipedia.org/wiki/Bcrypt", "{v}", "user.hash = '{v}'"),
    _own("argon2 hash", "$argon2id$v=19$m=65536,t=3,p=4$|{b22}${b43}", "github.com/P-H-C/phc-winner-argon2", "hash: {v}", "INSERT INTO u VALUES (1, '{v}')"),
    _own("shadow hash", "$6${a16}$|{a86}", "manual page crypt(5)", "root:{v}:19700:0:99999:7:::", "usermod -p '{v}' me"),
    _own("htpasswd hash", "$apr1${a8}$|{a22}", "httpd.apache.org/docs/2.4/misc/password_encryptions.html", "me:{v}", "cat .htpasswd\nadmin:{v}"),
    _own("django hash", "pbkdf2_sha256$600000${a22}$|{b43}=", "docs.djangoproject.com/en/stable/topics/auth/passwords", "password={v}", "'{v}'"),
    _own("card number", "card", "en.wikipedia.org/wiki/Payment_card_number", "my card is {v}, exp 04/29", "card_number: {v}",
         '{"number": "{v}", "cvc": "123"}', "pay with {v} please"),
    _own("seed phrase 12", "seed12", "github.com/bitcoin/bips/blob/master/bip-0039.mediawiki", "my wallet: {v}", "mnemonic = '{v}'",
         "SEED_PHRASE=\"{v}\"", "write these down: {v}"),
    _own("seed phrase 24", "seed24", "github.com/bitcoin/bips/blob/master/bip-0039.mediawiki", "recovery phrase: {v}", "{v}"),
    _own("recovery codes", "codes-github", "docs.github.com/authentication/securing-your-account-with-two-factor-authentication-2fa",
         "my recovery codes:\n{v}", "Backup codes for GitHub\n\n{v}\n\nkeep them"),
    _own("backup codes", "codes-google", "support.google.com/accounts/answer/1187538", "Backup codes:\n{v}",
         "here are the backup codes\n{v}\n"),
    _own("rails master key", "{h32}", "guides.rubyonrails.org/security.html", "RAILS_MASTER_KEY={v}", "config/master.key: {v}"),
    _own("django secret key", "django-insecure-{l50}", "docs.djangoproject.com/en/stable/ref/settings", "SECRET_KEY = '{v}'", 'SECRET_KEY="{v}"'),
    _own("laravel key", "{b43}=", "laravel.com/docs/encryption", "APP_KEY=base64:{v}", "key: 'base64:{v}'"),
    _own("npmrc password", "base64pw", "docs.npmjs.com/cli/v10/configuring-npm/npmrc",
         "//npm.shop.example/:_password={v}", "//npm.shop.example/:username=me\n//npm.shop.example/:_password=\"{v}\""),
    _own("npmrc auth", "base64login", "docs.npmjs.com/cli/v10/configuring-npm/npmrc", "_auth={v}", "//npm.shop.example/:_auth={v}"),
    _own("private header", "{a32}", "datatracker.ietf.org/doc/html/rfc9110", "PRIVATE-TOKEN: {v}", "X-Auth-Token: {v}",
         "curl -H 'X-Api-Key: {v}' https://a.example"),
    _own("name and value", "{a40}", "kubernetes.io/docs/concepts/workloads/pods", '{"name": "API_SECRET", "value": "{v}"}',
         "- name: API_SECRET\n  value: {v}", 'variable "api_secret" {\n  default = "{v}"\n}', "| api_secret | `{v}` |"),
    _own("dockerfile env", "{a32}", "docs.docker.com/reference/dockerfile", "ENV API_TOKEN {v}", "use API_TOKEN {v} for staging"),
    _own("xml password", "{a9}!{d3}", "maven.apache.org/settings.html", "<password>{v}</password>",
         '<add key="DbPassword" value="{v}"/>', "<property name='connection.password'>{v}</property>"),
    _own("wordpress salt", "{a30}!{a20}({a12}", "developer.wordpress.org/apis/wp-config-php", "define('NONCE_SALT', '{v}');",
         "define( 'AUTH_KEY', '{v}' );"),
    _own("aws signature", "{h64}", "docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html",
         "https://b.s3.amazonaws.com/k?X-Amz-Expires=900&X-Amz-Signature={v}", "SignedHeaders=host, Signature={v}"),
    _own("other schemes", "{a40}", "developer.okta.com/docs/reference/core-okta-api", "Authorization: SSWS {v}", "authorization: Splunk {v}"),
    _own("secure string", "{a9}!{d3}", "learn.microsoft.com/powershell/module/microsoft.powershell.security/convertto-securestring",
         "ConvertTo-SecureString '{v}' -AsPlainText -Force", 'ConvertTo-SecureString -String "{v}" -AsPlainText -Force'),
    _own("remote desktop", "{a9}-{d3}", "github.com/FreeRDP/FreeRDP", "xfreerdp /v:10.0.0.5 /u:bob /p:{v}", "rdesktop -u bob -p {v} 10.0.0.5",
         "net user bob {v} /add", "cmdkey /add:10.0.0.5 /user:bob /pass:{v}"),
    _own("mqtt and ftp", "{a9}-{d3}", "mosquitto.org/man", "mosquitto_pub -u bob -P {v} -t x", "lftp -u bob,{v} ftp.shop.example"),
    _own("sql users", "{a9}!{d3}", "postgresql.org/docs/current/sql-createrole.html", "ALTER ROLE app WITH LOGIN PASSWORD '{v}';",
         "CREATE USER 'app'@'%' IDENTIFIED BY '{v}';"),
    _own("redis config", "{a9}-{d3}", "redis.io/docs/latest/operate/oss_and_stack/management/security", "requirepass {v}", "masterauth {v}"),
    _own("login call", "{a9}!{d3}", "docs.python.org/3/library/smtplib.html", "smtp.login('bob@shop.example', '{v}')",
         "requests.get(u, auth=('bob', '{v}'))"),
    _own("chinese password", "{a9}!{d3}", "unicode.org/charts", "\u6570\u636e\u5e93\u5bc6\u7801\uff1a{v}", "\u767b\u5f55\u5bc6\u7801\u4e3a{v}\uff0c\u8bf7\u4fdd\u5bc6"),
    _own("bootstrap token", "{l6}.|{l16}", "kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens", "kubeadm token create {v}",
         "kubeadm join 10.0.0.1:6443 --token {v}"),
    _own("slash in address", "{a6}/{a6}!{d3}", "rfc-editor.org/rfc/rfc3986", "mysql://root:{v}@db.shop.example:3306/shop",
         "amqp://svc:{v}@mq.shop.example/x"),
    _own("nvidia", "nvapi-|{w64}", "docs.nvidia.com/nim", "I put {v} in the settings", "client = Client('{v}')"),
    _own("jina", "jina_|{a60}", "jina.ai/embeddings", "I put {v} in the settings", "client = Client('{v}')"),
    _own("firecrawl", "fc-|{h32}", "docs.firecrawl.dev", "I put {v} in the settings", "client = Client('{v}')"),
    _own("zapier hook", "https://hooks.zapier.com/hooks/catch/1234567/|{l14}", "help.zapier.com", "HOOK={v}", "post it to {v} please"),
    _own("razorpay", "rzp_live_|{a14}", "razorpay.com/docs/api/authentication", "I put {v} in the settings", "client = Client('{v}')"),
)  # fmt: skip

KINDS: tuple[Kind, ...] = (*_tokens(TOKENS), *_labelled(LABELLED), *OWN)

Redact = Callable[[str], str]


def survivors(redact: Redact, held: bool, count: int = 60) -> dict[str, list[tuple[str, str]]]:
    """By kind, the texts of which a secret remains, each with what was left."""
    found: dict[str, list[tuple[str, str]]] = {}
    for kind in KINDS:
        for text, secret in kind.values(count, held):
            if remains(secret, clean := redact(text)):
                found.setdefault(kind.name, []).append((text, clean))
    return found
