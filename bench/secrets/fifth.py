# ruff: noqa: E501 - a kind per line reads as the table it is
"""A fifth list: sixty kinds in the forms of 2026. It was committed before the rules were first run on it.

Kinds are numbered by the hash of their names: rules were mended looking at the odd ones, the even ones only measure.
"""

import base64

from bench.secrets.kind import Kind, token
from bench.secrets.makers import (
    ALNUM,
    B32,
    BECH,
    HEX,
    LOW,
    UP,
    URLSAFE,
    b64,
    b64u,
    b64uj,
    basic,
    f,
    g,
    jwt,
    p,
    parts,
    pick,
    pw,
    pws,
    secret_in,
    uuid,
)

# fmt: off
FIFTH: tuple[Kind, ...] = (
    # --- models and agents
    token("cursor", p("key_", HEX, 64), "CURSOR_API_KEY", "https://api.cursor.com/v0/me", "cursorApiKey", "the background agent runs with {v}", source="cursor.com/docs/cloud-agent/api"),
    token("cursor new", p("crsr_", HEX, 64), "CURSOR_API_KEY", "https://api.cursor.com/v0/agents", "cursor", "cursor cli takes {v} now", source="cursor.com/docs/cli"),
    token("openai service", parts("sk-svcacct-", g(URLSAFE, 74), "T3BlbkFJ", g(URLSAFE, 74)), "OPENAI_API_KEY", "https://api.openai.com/v1/models", "openai", "service account key {v}", source="platform.openai.com/docs/api-reference"),
    token("openai admin", parts("sk-admin-", g(URLSAFE, 58), "T3BlbkFJ", g(URLSAFE, 58)), "OPENAI_ADMIN_KEY", "https://api.openai.com/v1/organization/users", "adminKey", "billing needs {v}", source="platform.openai.com/docs/api-reference/administration"),
    token("claude oauth", p("sk-ant-oat01-", URLSAFE, 86, "AA"), "CLAUDE_CODE_OAUTH_TOKEN", "https://api.anthropic.com/v1/messages", "oauthToken", "setup-token printed {v}", source="code.claude.com/docs/en/iam"),
    token("gemini key", p("AQ.Ab8RN6", URLSAFE, 44), "GEMINI_API_KEY", "https://generativelanguage.googleapis.com/v1beta/models", "geminiKey", "new studio key: {v}", "x-goog-api-key", "ai.google.dev/gemini-api/docs/api-key"),
    token("bedrock short", f(lambda r: "bedrock-api-key-" + base64.b64encode(b"bedrock.amazonaws.com/?Action=CallWithBearerToken&X-Amz-Credential=" + r.randbytes(90)).decode()), "AWS_BEARER_TOKEN_BEDROCK", "https://bedrock-runtime.us-east-1.amazonaws.com/model/x/converse", "bearer", "bedrock for twelve hours {v}", source="docs.aws.amazon.com/bedrock/latest/userguide/api-keys-use.html"),
    token("mistral", f(g(ALNUM, 32)), "MISTRAL_API_KEY", "https://api.mistral.ai/v1/models", "mistralApiKey", "the mistral api key is {v}", source="docs.mistral.ai/getting-started/quickstart"),
    token("together", p("tgp_v1_", URLSAFE, 43), "TOGETHER_API_KEY", "https://api.together.xyz/v1/models", "together", "together runs on {v}", source="docs.together.ai/docs/quickstart"),
    token("fireworks", p("fw_", ALNUM, 22), "FIREWORKS_API_KEY", "https://api.fireworks.ai/inference/v1/models", "fireworks", "fireworks wants {v}", source="docs.fireworks.ai/getting-started/quickstart"),
    token("cerebras", p("csk-", LOW, 48), "CEREBRAS_API_KEY", "https://api.cerebras.ai/v1/models", "cerebras", "cerebras: {v}", source="inference-docs.cerebras.ai/quickstart"),
    token("nvidia", p("nvapi-", URLSAFE, 64), "NVIDIA_API_KEY", "https://integrate.api.nvidia.com/v1/models", "nvidia", "nim runs with {v}", source="docs.api.nvidia.com/nim/docs/api-quickstart"),
    token("voyage", p("pa-", URLSAFE, 43), "VOYAGE_API_KEY", "https://api.voyageai.com/v1/embeddings", "voyageApiKey", "voyage api key {v}", source="docs.voyageai.com/docs/api-key-and-installation"),
    token("jina", p("jina_", URLSAFE, 60), "JINA_API_KEY", "https://api.jina.ai/v1/embeddings", "jina", "reader uses {v}", source="jina.ai/embeddings"),
    token("tavily", p("tvly-dev-", ALNUM, 32), "TAVILY_API_KEY", "https://api.tavily.com/search", "tavily", "search with {v}", source="docs.tavily.com/documentation/quickstart"),
    token("firecrawl", p("fc-", HEX, 32), "FIRECRAWL_API_KEY", "https://api.firecrawl.dev/v2/scrape", "firecrawl", "crawl with {v} please", source="docs.firecrawl.dev/introduction"),
    token("browserbase", p("bb_live_", URLSAFE, 27), "BROWSERBASE_API_KEY", "https://api.browserbase.com/v1/sessions", "browserbase", "browser sessions: {v}", "X-BB-API-Key", "docs.browserbase.com/reference/api/create-a-session"),
    token("e2b", p("e2b_", HEX, 40), "E2B_API_KEY", "https://api.e2b.app/sandboxes", "e2b", "sandboxes start with {v}", "X-API-Key", "e2b.dev/docs/api-key"),
    token("daytona", p("dtn_", HEX, 64), "DAYTONA_API_KEY", "https://app.daytona.io/api/sandbox", "daytona", "daytona has {v}", source="daytona.io/docs/api-keys"),
    token("mem0", p("m0-", ALNUM, 40), "MEM0_API_KEY", "https://api.mem0.ai/v1/memories", "mem0ApiKey", "mem0 key {v}", "Authorization: Token", "docs.mem0.ai/platform/quickstart"),
    token("helicone", parts("sk-helicone-", g(LOW, 7), "-", g(LOW, 7), "-", g(LOW, 7), "-", g(LOW, 12)), "HELICONE_API_KEY", "https://ai-gateway.helicone.ai/v1/models", "helicone", "helicone sees {v}", "Helicone-Auth: Bearer", "docs.helicone.ai/getting-started/quick-start"),
    token("wandb", p("wandb_v1_", URLSAFE, 77), "WANDB_API_KEY", "https://api.wandb.ai/graphql", "wandb", "sweeps log with {v}", source="docs.wandb.ai/support/find_api_key"),
    token("vercel gateway", p("vck_", ALNUM, 56), "AI_GATEWAY_API_KEY", "https://ai-gateway.vercel.sh/v1/models", "gatewayKey", "the gateway takes {v}", source="vercel.com/docs/ai-gateway/authentication"),
    token("zai", parts(g(HEX, 32), ".", g(ALNUM, 16)), "ZAI_API_KEY", "https://api.z.ai/api/paas/v4/models", "zaiApiKey", "glm api key {v}", source="docs.z.ai/guides/overview/quick-start"),
    token("moonshot", p("sk-", ALNUM, 48), "MOONSHOT_API_KEY", "https://api.moonshot.ai/v1/models", "moonshot", "kimi runs with {v}", source="platform.moonshot.ai/docs/guide/start-using-kimi-api"),
    # --- platforms
    token("cloudflare user", parts("cfut_", g(ALNUM, 40), g(HEX, 8)), "CLOUDFLARE_API_TOKEN", "https://api.cloudflare.com/client/v4/user/tokens/verify", "cfToken", "wrangler wants {v}", source="developers.cloudflare.com/fundamentals/api/get-started/token-formats"),
    token("cloudflare key", parts("cfk_", g(ALNUM, 40), g(HEX, 8)), "CLOUDFLARE_API_KEY", "https://api.cloudflare.com/client/v4/zones", "cfKey", "global one is {v}", "X-Auth-Key", "developers.cloudflare.com/fundamentals/api/get-started/token-formats"),
    token("vercel token", p("vcp_", ALNUM, 56), "VERCEL_TOKEN", "https://api.vercel.com/v9/projects", "vercel", "deploys go with {v}", source="vercel.com/docs/rest-api"),
    token("supabase secret", parts("sb_secret_", g(URLSAFE, 22), "_", g(URLSAFE, 8)), "SUPABASE_SECRET_KEY", "https://x.supabase.co/rest/v1/items", "supabaseKey", "supabase replaced it by {v}", "apikey", "supabase.com/docs/guides/api/api-keys"),
    token("gitlab routable", parts("glpat-", g(URLSAFE, 27), ".01.", g(LOW, 9)), "GITLAB_TOKEN", "https://gitlab.com/api/v4/user", "gitlabToken", "gitlab now gives {v}", "PRIVATE-TOKEN", "docs.gitlab.com/security/tokens"),
    Kind("github app jwt", parts("ghs_", lambda r: str(r.randrange(10**6, 10**7)), "_", lambda r: f"{b64uj({'alg': 'ES256'})}.{b64uj({'iat': r.randrange(10**9)})}.{b64u(r, 64)}"), "GH_TOKEN={v}", "git clone https://x-access-token:{v}@github.com/acme/app", 'jobs:\n  env:\n    GITHUB_TOKEN: "{v}"\n', "the app token is {v}", "github.blog/changelog"),
    token("docker org", p("dckr_oat_", URLSAFE, 32), "DOCKER_TOKEN", "https://hub.docker.com/v2/orgs", "docker", "ci logs in with {v}", source="docs.docker.com/enterprise/security/access-tokens"),
    token("jsr", p("jsrp_", ALNUM, 43), "JSR_TOKEN", "https://api.jsr.io/user", "jsrToken", "publish with {v}", source="jsr.io/docs/publishing-packages"),
    token("trigger", p("tr_prod_", ALNUM, 24), "TRIGGER_SECRET_KEY", "https://api.trigger.dev/api/v1/runs", "triggerKey", "jobs run with {v}", source="trigger.dev/docs/apikeys"),
    Kind("inngest", p("signkey-prod-", HEX, 64), "INNGEST_SIGNING_KEY={v}", "npx inngest-cli start --signing-key {v}", 'inngest:\n  signingKey: {v}\n', "inngest signing key {v}", "inngest.com/docs/platform/signing-keys"),
    token("posthog personal", p("phx_", ALNUM, 43), "POSTHOG_PERSONAL_API_KEY", "https://us.posthog.com/api/projects", "posthog", "queries use {v}", source="posthog.com/docs/api"),
    Kind("turso", jwt, "TURSO_AUTH_TOKEN={v}", "turso db shell libsql://x.turso.io --auth-token {v}", 'createClient({{ url: "libsql://x", authToken: "{v}" }})'.replace("{{", "{").replace("}}", "}"), "turso auth token {v}", "docs.turso.tech/sdk/authentication"),
    Kind("tailscale", parts("tskey-auth-", g(ALNUM, 17), "-", g(ALNUM, 32)), "TS_AUTHKEY={v}", "tailscale up --auth-key {v}", "tailscale:\n  authkey: {v}\n", "node joins with {v}", "tailscale.com/docs/features/access-control/auth-keys"),
    token("matrix", parts("syt_", lambda r: b64u(r, 6), "_", g(ALNUM, 20), "_", g(ALNUM, 6)), "MATRIX_ACCESS_TOKEN", "https://matrix.org/_matrix/client/v3/account/whoami", "accessToken", "the bot's access token is {v}", source="spec.matrix.org/latest/client-server-api"),
    token("railway", f(uuid), "RAILWAY_TOKEN", "https://backboard.railway.com/graphql/v2", "railwayToken", "railway token: {v}", "Project-Access-Token", "docs.railway.com/reference/public-api"),
    token("clerk", p("sk_live_", ALNUM, 42), "CLERK_SECRET_KEY", "https://api.clerk.com/v1/users", "clerk", "clerk prod {v}", source="clerk.com/docs/guides/development/clerk-environment-variables"),
    token("datadog app", p("ddapp_", ALNUM, 34), "DD_APPLICATION_KEY", "https://api.datadoghq.com/api/v2/validate", "applicationKey", "datadog application key {v}", "DD-APPLICATION-KEY", "docs.datadoghq.com/account_management/api-app-keys"),
    token("elastic", f(lambda r: base64.b64encode(f"{pick(r, URLSAFE, 20)}:{pick(r, URLSAFE, 22)}".encode()).decode()), "ELASTIC_API_KEY", "https://x.es.io/_security/_authenticate", "apiKey", "elastic api key {v}", "Authorization: ApiKey", "elastic.co/docs/deploy-manage/api-keys"),
    token("grafana cloud", f(lambda r: "glc_" + b64(r, 96)), "GRAFANA_CLOUD_TOKEN", "https://grafana.com/api/instances", "grafana", "alloy writes with {v}", source="grafana.com/docs/grafana-cloud/account-management/authentication-and-permissions/access-policies"),
    # --- addresses
    Kind("mcp address", secret_in("https://mcp.acme.io/sse?api_key=", lambda r: pick(r, ALNUM, 32)), "MCP_URL={v}", "claude mcp add --transport sse acme '{v}'", '{"mcpServers": {"acme": {"url": "{v}"}}}', "the server is at {v}", "modelcontextprotocol.io/docs"),
    Kind("mcp path", secret_in("https://mcp.zapier.com/api/mcp/s/", lambda r: base64.b64encode(f"{uuid(r)}:{uuid(r)}".encode()).decode().rstrip("="), "/mcp"), "ZAPIER_MCP={v}", "codex mcp add zapier --url {v}", 'url = "{v}"\n', "zapier gave me {v}", "zapier.com/mcp"),
    Kind("azure sas", secret_in("https://x.blob.core.windows.net/c/f.zip?sp=r&sv=2026-02-06&sr=b&sig=", lambda r: b64(r, 32).replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")), "BLOB_URL={v}", "azcopy copy '{v}' .", 'source: "{v}"\n', "download it from {v}", "learn.microsoft.com/azure/storage/common/storage-sas-overview"),
    Kind("power automate", secret_in("https://prod-01.westeurope.logic.azure.com:443/workflows/0a1b/triggers/manual/paths/invoke?api-version=2016-06-01&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=", lambda r: pick(r, URLSAFE, 43)), "TEAMS_WEBHOOK={v}", "curl -X POST '{v}' -d '{}'", '{"webhook": "{v}"}', "post to {v}", "learn.microsoft.com/power-automate"),
    Kind("s3 presigned", secret_in("https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20260301T000000Z&X-Amz-Expires=604800&X-Amz-Signature=", lambda r: pick(r, HEX, 64)), "DUMP_URL={v}", "wget '{v}' -O dump", 'url: "{v}"\n', "the dump is at {v}", "docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html"),
    Kind("otpauth", secret_in("otpauth://totp/Acme:jane?secret=", lambda r: pick(r, B32, 32), "&issuer=Acme"), "TOTP_URI='{v}'", "qrencode -t ansi '{v}'", '{"otp": "{v}"}', "scan this: {v}", "github.com/google/google-authenticator/wiki/Key-Uri-Format"),
    # --- keys
    Kind("age hybrid", p("AGE-SECRET-KEY-PQ-1", BECH.upper(), 58), "SOPS_AGE_KEY={v}", "echo {v} | age -d -i - f.age", "# public key: age1pq1xyz\n{v}\n", "decrypt with {v}", "github.com/FiloSottile/age"),
    Kind("wireguard", f(lambda r: b64(r, 32)), "WG_PRIVATE_KEY={v}", "wg set wg0 peer x preshared-key <(echo '{v}')", "[Interface]\nPrivateKey = {v}\nAddress = 10.0.0.2/32\n", "wireguard private key: {v}", "wireguard.com/quickstart"),
    Kind("ethereum", f(lambda r: "0x" + pick(r, HEX, 64)), "PRIVATE_KEY={v}", "cast send --private-key {v} 0xabc 'f()'", 'accounts: ["{v}"],  // private key\n', "deployer private key {v}", "getfoundry.sh/cast"),
    Kind("vapid", f(lambda r: b64u(r, 32)), "VAPID_PRIVATE_KEY={v}", "web-push send-notification --vapid-pvtkey={v}", '{"privateKey": "{v}", "subject": "mailto:a@x.io"}', "vapid private key is {v}", "github.com/web-push-libs/web-push"),
    # --- programs and people
    Kind("docker login", basic, "REGISTRY_AUTH={v}", "curl -H 'Authorization: Basic {v}' https://registry.acme.io/v2/", '{"auths": {"registry.acme.io": {"auth": "{v}"}}}', "basic auth is {v}", "docs.docker.com/reference/cli/docker/login"),
    Kind("postgres", f(pw), "PGPASSWORD={v}", "psql 'host=db user=app password={v} sslmode=require'", "db:5432:app:app:{v}\n# ~/.pgpass\n", "the db password is {v}", "postgresql.org/docs/current/libpq-connect.html"),
    Kind("mongo", f(pw), "MONGO_PASSWORD={v}", "mongosh 'mongodb+srv://app:{v}@c0.ab1cd.mongodb.net/app'", 'mongo:\n  uri: mongodb://app:{v}@db:27017/app\n', "mongo's password: {v}", "mongodb.com/docs/manual/reference/connection-string"),
    Kind("sql user", f(pw), "DB_PASS={v}", "mysql -e \"CREATE USER app IDENTIFIED BY '{v}'\"", "ALTER ROLE app WITH PASSWORD '{v}';\n", "I set the password to {v}", "postgresql.org/docs/current/sql-alterrole.html"),
    Kind("managed password", f(pws), "ADMIN_PASSWORD='{v}'", "htpasswd -b .htpasswd jane '{v}'", 'admin:\n  password: "{v}"\n', "admin password: {v}", "httpd.apache.org/docs/current/programs/htpasswd.html"),
    Kind("session cookie", f(lambda r: "s%3A" + pick(r, URLSAFE, 32) + "." + pick(r, ALNUM, 43)), "SESSION_COOKIE={v}", "curl -b 'connect.sid={v}' https://x.io/me", "Cookie: connect.sid={v}; theme=dark\n", "my session cookie is {v}", "expressjs.com/en/resources/middleware/session.html"),
    Kind("preshared mcp header", p("token_", ALNUM, 40), "MCP_AUTH_TOKEN={v}", "claude mcp add --transport http x https://x.io/mcp --header 'X-Api-Key: {v}'", '{"mcpServers": {"x": {"url": "https://x.io/mcp", "headers": {"Authorization": "Bearer {v}"}}}}', "the header's token is {v}", "code.claude.com/docs/en/mcp"),
    Kind("pairs of an app", parts("my-app-", g(UP, 40)), "APP_SECRET={v}", "app login --secret {v}", "app:\n  secret: {v}\n", "the app secret is {v}", "own"),
)
# fmt: on
