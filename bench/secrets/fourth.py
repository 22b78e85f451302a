# ruff: noqa: E501 - a kind per line reads as the table it is
"""A fourth list: kinds that are in none of the others, each with the page that describes it. No rule was mended by it.

It was committed before the rules were first run on it.
"""

import base64
import string

from bench.secrets.kind import Kind, token
from bench.secrets.makers import ALNUM, B32, HEX, LOW, UP, URLSAFE, b64, b64u, f, g, p, parts, pick, pw, pws, secret_in, uuid

# fmt: off
FOURTH: tuple[Kind, ...] = (
    # --- vendors
    token("porkbun", p("sk1_", HEX, 64), "PORKBUN_SECRET_API_KEY", "https://api.porkbun.com/api/json/v3/ping", "secretapikey", "porkbun wants {v} for the zone", "X-Secret-API-Key", "porkbun.com/llms/guides/getting-started"),
    token("exoscale", f(lambda r: pick(r, URLSAFE, 43)), "EXOSCALE_API_SECRET", "https://api-ch-gva-2.exoscale.com/v2/zone", "secret", "the exoscale secret is {v}", "X-Exo-Secret", "community.exoscale.com/reference/terraform/provider"),
    Kind("modal", p("as-", ALNUM, 22), "MODAL_TOKEN_SECRET={v}", "modal token set --token-id ak-1 --token-secret {v}", '[default]\ntoken_secret = "{v}"', "modal token secret {v} goes into CI", "modal.com/docs/reference/cli/token"),
    token("deno_deploy", p("ddp_", ALNUM, 36), "DENO_DEPLOY_TOKEN", "https://api.deno.com/v1/projects", "deployToken", "deployctl asks for {v}", source="docs.doppler.com/docs/deno-deploy"),
    token("ory", parts("ory_at_", g(URLSAFE, 43), ".", g(URLSAFE, 43)), "ORY_ACCESS", "https://x.projects.oryapis.com/userinfo", "ory", "hydra gave me {v}", source="github.com/ory/hydra/issues/2845"),
    token("turnstile", p("0x4AAAAAAA", URLSAFE, 25), "TURNSTILE_SECRET_KEY", "https://challenges.cloudflare.com/turnstile/v0/siteverify", "turnstileSecret", "turnstile secret key: {v}", "X-Turnstile-Secret", "developers.cloudflare.com/turnstile/get-started/server-side-validation"),
    token("onesignal", p("os_v2_app_", LOW, 103), "ONESIGNAL_REST_API_KEY", "https://api.onesignal.com/notifications", "onesignal", "push goes out with {v}", "Authorization: Key", "documentation.onesignal.com/docs/keys-and-ids"),
    token("metabase", p("mb_", ALNUM + "+/", 43, "="), "METABASE_API_KEY", "https://mb.acme.io/api/permissions/group", "metabase_api_key", "metabase api key: {v}", "x-api-key", "metabase.com/docs/latest/people-and-groups/api-keys"),
    token("trello", p("ATTA", HEX, 72), "TRELLO_TOKEN", "https://api.trello.com/1/members/me", "trelloToken", "trello gave this token: {v}", "X-Trello-Token", "developer.atlassian.com/cloud/trello/guides/rest-api/authorization"),
    token("deepgram", f(g(HEX, 40)), "DEEPGRAM_API_KEY", "https://api.deepgram.com/v1/listen", "deepgram_api_key", "the deepgram api key is {v}", "Authorization: Token", "developers.deepgram.com/docs/create-additional-api-keys"),
    token("assemblyai", f(g(HEX, 32)), "ASSEMBLYAI_API_KEY", "https://api.assemblyai.com/v2/transcript", "assemblyai", "assembly key {v}", "Authorization:", "assemblyai.com/docs/getting-started"),
    Kind("serpapi", f(g(HEX, 64)), "SERPAPI_API_KEY={v}", "curl 'https://serpapi.com/search.json?q=coffee&api_key={v}'", 'params = {"q": "coffee", "api_key": "{v}"}', "serpapi's api key is {v}", "serpapi.com/search-api"),
    token("exa", f(uuid), "EXA_API_KEY", "https://api.exa.ai/search", "exaApiKey", "exa api key: {v}", "x-api-key", "docs.exa.ai/reference/getting-started"),
    token("upstash", f(lambda r: "A" + pick(r, ALNUM, 57) + "=="), "UPSTASH_REDIS_REST_TOKEN", "https://eu1-x.upstash.io/get/foo", "restToken", "upstash token {v}", source="upstash.com/docs/redis/features/restapi"),
    Kind("convex", parts("prod:happy-otter-123|", g(ALNUM, 60)), "CONVEX_DEPLOY_KEY='{v}'", "npx convex deploy --admin-key '{v}'", 'env:\n  CONVEX_DEPLOY_KEY: "{v}"\n', "convex deploy key: {v}", "docs.convex.dev/cli/deploy-key-types"),
    Kind("mux", f(lambda r: b64(r, 56)), "MUX_TOKEN_SECRET={v}", "curl https://api.mux.com/video/v1/assets -u 2f0c1:{v}", 'tokenSecret: "{v}",', "mux token secret is {v}", "docs.mux.com/core/make-api-requests"),
    Kind("livekit", f(g(ALNUM, 43)), "LIVEKIT_API_SECRET={v}", "lk token create --api-key APIx --api-secret {v} --join", "keys:\n  APIxJ3: {v}\n", "livekit api secret = {v}", "docs.livekit.io/home/self-hosting/deployment"),
    token("workos", parts("sk_live_", lambda r: base64.b64encode(b"key_" + r.randbytes(20)).decode().rstrip("="), g(ALNUM, 25)), "WORKOS_API_KEY", "https://api.workos.com/connections", "workos", "workos one {v}", source="workos.com/docs/reference/api-keys"),
    token("checkout", parts("sk_sbox_", g(LOW, 26)), "CKO_SECRET_KEY", "https://api.sandbox.checkout.com/payments", "ckoSecret", "checkout sandbox takes {v}", "Authorization: Bearer", "checkout.com/docs/resources/api-authentication/api-keys"),
    Kind("linkedin", parts("WPL_AP1.", g(ALNUM, 16), ".", g(ALNUM + "+/", 6), "=="), "LINKEDIN_CLIENT_SECRET={v}", "curl https://www.linkedin.com/oauth/v2/accessToken -d 'client_secret={v}'", '{"linkedin": {"clientSecret": "{v}"}}', "linkedin primary client secret: {v}", "learn.microsoft.com/linkedin/shared/authentication/client-credentials-flow"),
    Kind("backblaze", p("K00", ALNUM + "+/", 28), "B2_APPLICATION_KEY={v}", "b2 account authorize 0012ab {v}", "[b2]\ntype = b2\nkey = {v}\n", "b2 application key {v}", "backblaze.com/docs/cloud-storage-application-keys"),
    Kind("storj", f(lambda r: "1" + pick(r, ALNUM, 180)), "STORJ_ACCESS_GRANT={v}", "uplink access import main {v}", "[storj]\naccess_grant = {v}\n", "the storj access grant is {v}", "storj.dev/dcs/access"),
    token("discourse", f(g(HEX, 64)), "DISCOURSE_API_KEY", "https://meta.acme.io/posts.json", "discourse_api_key", "forum api key {v}", "Api-Key", "docs.discourse.org"),
    token("mastodon", f(lambda r: pick(r, URLSAFE, 43)), "MASTODON_ACCESS_TOKEN", "https://mastodon.social/api/v1/accounts/verify_credentials", "accessToken", "mastodon access token: {v}", source="docs.joinmastodon.org/client/token"),
    Kind("bluesky", f(lambda r: "-".join(pick(r, string.ascii_lowercase + "234567", 4) for _ in range(4))), "BLUESKY_APP_PASSWORD={v}", "bsky login jane.bsky.social --password {v}", 'bluesky:\n  app_password: "{v}"\n', "bluesky app password is {v}", "docs.bsky.app/docs/get-started"),
    Kind("reddit", f(lambda r: pick(r, URLSAFE, 30)), "REDDIT_CLIENT_SECRET={v}", "curl -u 'aB3dE:{v}' https://www.reddit.com/api/v1/access_token", "[bot]\nclient_secret={v}\n", "reddit client secret {v}", "github.com/reddit-archive/reddit/wiki/OAuth2"),
    token("paystack", p("sk_live_", HEX, 40), "PAYSTACK_SECRET", "https://api.paystack.co/transaction", "paystack", "paystack live key {v}", source="paystack.com/docs/api/authentication"),
    Kind("kraken", f(lambda r: b64(r, 64)), "KRAKEN_API_SECRET={v}", "kraken-cli balance --private-key '{v}'", '{"apiKey": "k", "privateKey": "{v}"}', "kraken private key is {v}", "docs.kraken.com/api/docs/guides/spot-rest-auth"),
    token("zerotier", f(g(ALNUM, 32)), "ZEROTIER_CENTRAL_TOKEN", "https://api.zerotier.com/api/v1/network", "zerotier_token", "zerotier central token {v}", "Authorization: token", "docs.zerotier.com/api/central/v1"),
    token("bunny", f(lambda r: f"{uuid(r)}{uuid(r)[8:]}"), "BUNNY_API_KEY", "https://api.bunny.net/pullzone", "bunnyAccessKey", "bunny access key {v}", "AccessKey", "docs.bunny.net/reference/bunnynet-api-overview"),
    token("rollbar", f(g(HEX, 32)), "ROLLBAR_ACCESS_TOKEN", "https://api.rollbar.com/api/1/items", "rollbarAccessToken", "rollbar access token is {v}", "X-Rollbar-Access-Token", "docs.rollbar.com/docs/access-tokens"),
    token("freshdesk", f(g(ALNUM, 20)), "FRESHDESK_API_KEY", "https://acme.freshdesk.com/api/v2/tickets", "freshdeskApiKey", "freshdesk api key: {v}", "X-Api-Key", "developers.freshdesk.com/api"),
    token("pipedrive", f(g(HEX, 40)), "PIPEDRIVE_API_TOKEN", "https://api.pipedrive.com/v1/deals", "pipedrive_api_token", "pipedrive api token: {v}", "x-api-token", "pipedrive.readme.io/docs/core-api-concepts-authentication"),
    token("alchemy", f(lambda r: pick(r, URLSAFE, 32)), "ALCHEMY_API_KEY", "https://eth-mainnet.g.alchemy.com/v2/", "alchemyApiKey", "alchemy api key {v}", source="docs.alchemy.com/docs/alchemy-quickstart-guide"),
    Kind("etherscan", f(lambda r: pick(r, UP, 34)), "ETHERSCAN_API_KEY={v}", "forge verify-contract --etherscan-api-key {v} 0x1 C", 'etherscan: { apiKey: "{v}" }', "etherscan key is {v}", "docs.etherscan.io/getting-started/viewing-api-usage-statistics"),
    token("svix", parts("sk_", g(URLSAFE, 32), ".eu"), "SVIX_TOKEN", "https://api.svix.com/api/v1/app", "svixToken", "svix auth token {v}", source="docs.svix.com/quickstart"),
    token("runpod", p("rpa_", UP, 42), "RUNPOD_API_KEY", "https://rest.runpod.io/v1/pods", "runpod", "runpod pods start with {v}", source="docs.runpod.io/get-started/api-keys"),
    token("calcom", p("cal_live_", HEX, 32), "CALCOM_API_KEY", "https://api.cal.com/v2/me", "calcom", "cal.com has {v}", source="cal.com/docs/api-reference/v2/introduction"),
    token("symfony", f(g(HEX, 32)), "APP_SECRET", "https://x.io/_profiler", "kernel.secret", "symfony's app secret is {v}", "X-App-Secret", "symfony.com/doc/current/reference/configuration/framework.html"),
    Kind("phoenix", f(lambda r: b64(r, 48)), "SECRET_KEY_BASE={v}", "SECRET_KEY_BASE={v} mix phx.server", 'config :app, AppWeb.Endpoint,\n  secret_key_base: "{v}"\n', "phoenix secret_key_base is {v}", "hexdocs.pm/phoenix/deployment.html"),
    # --- programs
    Kind("snmp_v3", f(pw), "SNMP_AUTH_PASSWORD={v}", "snmpget -v3 -u ops -l authPriv -a SHA -A {v} -x AES 10.0.0.1 sysName.0", 'createUser ops SHA "{v}" AES\n', "snmp v3 auth password: {v}", "net-snmp.org/docs/man/snmpcmd.html"),
    Kind("cisco", f(pw), "ENABLE_SECRET={v}", "enable secret 0 {v}", "username jane privilege 15 secret 0 {v}\n", "the enable password of the switch is {v}", "cisco.com/c/en/us/td/docs/ios-xml/ios/security/d1/sec-d1-cr-book.html"),
    Kind("radius", f(pw), "RADIUS_SECRET={v}", "radtest jane hello-1 10.0.0.5 0 {v}", "client ap1 {\n  ipaddr = 10.0.0.2\n  secret = {v}\n}\n", "radius shared secret: {v}", "freeradius.org/documentation/freeradius-server/3.2.9/man"),
    Kind("rsync", f(pw), "RSYNC_PASSWORD={v}", "RSYNC_PASSWORD={v} rsync -a rsync://jane@h/mod .", "# /etc/rsyncd.secrets\njane:{v}\n", "rsync password for jane is {v}", "download.samba.org/pub/rsync/rsync.1"),
    Kind("ipsec_psk", f(pws), "IPSEC_PSK='{v}'", "nmcli con modify vpn vpn.secrets 'ipsec-psk={v}'", ': PSK "{v}"\n', "the ipsec psk is {v}", "docs.strongswan.org/docs/latest/swanctl/swanctlConf.html"),
    Kind("iscsi_chap", f(pw), "CHAP_PASSWORD={v}", "iscsiadm -m node -o update -n node.session.auth.password -v {v}", "node.session.auth.username = ops\nnode.session.auth.password = {v}\n", "chap password is {v}", "github.com/open-iscsi/open-iscsi README"),
    Kind("rabbitmq_user", f(pw), "RABBITMQ_DEFAULT_PASS={v}", "rabbitmqctl add_user jane {v}", "default_user = jane\ndefault_pass = {v}\n", "rabbit user jane has password {v}", "rabbitmq.com/docs/man/rabbitmqctl.8"),
    Kind("mosquitto_passwd", f(pw), "MQTT_PASSWORD={v}", "mosquitto_passwd -b /etc/mosquitto/pw jane {v}", "mqtt:\n  username: jane\n  password: {v}\n", "mqtt password = {v}", "mosquitto.org/man/mosquitto_passwd-1.html"),
    Kind("aws_secretsmanager", f(pws), "SECRET_STRING='{v}'", "aws secretsmanager create-secret --name db --secret-string '{v}'", '{"SecretString": "{v}"}', "secretsmanager holds this password: {v}", "docs.aws.amazon.com/cli/latest/reference/secretsmanager/create-secret.html"),
    Kind("aws_ssm", f(pw), "SSM_DB_PASSWORD={v}", "aws ssm put-parameter --type SecureString --name /db/password --value {v}", 'resource "aws_ssm_parameter" "db" {\n  type  = "SecureString"\n  value = "{v}"\n}\n', "the parameter /db/password is now {v}", "docs.aws.amazon.com/cli/latest/reference/ssm/put-parameter.html"),
    Kind("keyvault", f(pw), "KEYVAULT_DB_PASSWORD={v}", "az keyvault secret set --vault-name kv --name db-password --value {v}", 'resource keyVaultSecret \'secrets\' = {\n  name: \'db-password\'\n  properties: { value: \'{v}\' }\n}\n', "in the vault db-password is {v}", "learn.microsoft.com/cli/azure/keyvault/secret"),
    Kind("vault_kv", f(pw), "DB_PASSWORD={v}", "vault kv put secret/db username=jane password={v}", '{"data": {"data": {"password": "{v}"}}}', "vault has password {v} at secret/db", "developer.hashicorp.com/vault/docs/commands/kv/put"),
    Kind("gh_secret", f(lambda r: pick(r, ALNUM, 36)), "DEPLOY_TOKEN={v}", "gh secret set DEPLOY_TOKEN --body {v}", "env:\n  DEPLOY_TOKEN: {v}\n", "I set DEPLOY_TOKEN to {v} in the repo", "cli.github.com/manual/gh_secret_set"),
    Kind("heroku_config", f(pw), "SMTP_PASSWORD={v}", "heroku config:set SMTP_PASSWORD={v} -a shop", '"env": {"SMTP_PASSWORD": {"value": "{v}"}}', "SMTP_PASSWORD on heroku is {v}", "devcenter.heroku.com/articles/config-vars"),
    Kind("wrangler_secret", f(lambda r: b64u(r, 32)), "SIGNING_SECRET={v}", "echo '{v}' | npx wrangler secret put SIGNING_SECRET", '# .dev.vars\nSIGNING_SECRET="{v}"\n', "SIGNING_SECRET is {v}", "developers.cloudflare.com/workers/wrangler/commands"),
    Kind("macos_keychain", f(pw), "KEYCHAIN_PASSWORD={v}", "security unlock-keychain -p {v} build.keychain", "security add-generic-password -a jane -s api -w {v}\n", "the keychain password on the mac mini is {v}", "ss64.com/mac/security.html"),
    Kind("docker_registry_secret", f(pw), "REGISTRY_PASSWORD={v}", "kubectl create secret docker-registry r --docker-username=jane --docker-password={v}", "imageCredentials:\n  username: jane\n  password: {v}\n", "registry password for jane: {v}", "kubernetes.io/docs/tasks/configure-pod-container/pull-image-private-registry"),
    Kind("tomcat_users", f(pw), "TOMCAT_PASSWORD={v}", "curl -u manager:{v} http://h:8080/manager/text/list", '<user username="manager" password="{v}" roles="manager-script"/>', "tomcat manager password: {v}", "tomcat.apache.org/tomcat-10.1-doc/manager-howto.html"),
    Kind("jasypt", f(pw), "JASYPT_ENCRYPTOR_PASSWORD={v}", "java -jar a.jar --jasypt.encryptor.password={v}", "jasypt:\n  encryptor:\n    password: {v}\n", "the jasypt password is {v}", "github.com/ulisesbocchio/jasypt-spring-boot"),
    Kind("playwright_login", f(pw), "E2E_PASSWORD={v}", "await page.fill('#password', '{v}')", "await page.getByLabel('Password').fill('{v}');", "the e2e user logs in with password {v}", "playwright.dev/docs/auth"),
    Kind("har_post", f(pw), "LOGIN_BODY='user=jane&password={v}'", "curl -d 'user=jane&password={v}' https://x.io/login", '{"postData": {"params": [{"name": "password", "value": "{v}"}]}}', "the form sends password={v}", "w3c.github.io/web-performance/specs/HAR/Overview.html"),
    # --- told in other languages and forms
    Kind("swedish", f(pw), "LOSENORD={v} # lösenord", "# lösenord: {v}", "lösenord: {v}", "lösenordet är {v}", "sv.wiktionary.org/wiki/lösenord"),
    Kind("turkish", f(pw), "SIFRE={v} # şifre", "# şifre: {v}", "şifre: {v}", "yönetici şifresi: {v}", "tr.wiktionary.org/wiki/şifre"),
    Kind("czech", f(pw), "HESLO={v}", "# heslo: {v}", "heslo: {v}", "heslo je {v}", "cs.wiktionary.org/wiki/heslo"),
    Kind("terminal_prompt", f(pws), "# Enter new UNIX password: {v}", "$ su - jane\nPassword: {v}", 'expect "Password:"\nsend "{v}\\r"', "it asked for the password and I typed {v}", "man7.org/linux/man-pages/man1/su.1.html"),
    Kind("user_slash_pass", f(pw), "# admin / {v} (user / password)", "user/pass: jane/{v}", "Username: jane\nPassphrase: {v}\n", "login jane, pw {v}", "en.wikipedia.org/wiki/Password"),
    Kind("otp_seed_steam", f(lambda r: b64(r, 20)), "STEAM_SHARED_SECRET={v}", "steamguard --shared-secret '{v}'", '{"shared_secret": "{v}", "account_name": "jane"}', "steam shared secret is {v}", "github.com/dyc3/steamguard-cli"),
    Kind("yubico", f(lambda r: b64(r, 20)), "YUBICO_SECRET_KEY={v}", "ykclient --apikey {v} 42 ccccc", 'YUBIKEY_API_SECRET_KEY = "{v}"', "yubico api secret key {v}", "developers.yubico.com/yubikey-val/Getting_Started_Writing_Clients.html"),
    Kind("mailjet", f(g(HEX, 32)), "MJ_APIKEY_PRIVATE={v}", "curl -u 'pub1:{v}' https://api.mailjet.com/v3/REST/contact", 'mailjet.connect("pub1", "{v}")', "mailjet's private api key: {v}", "dev.mailjet.com/email/guides"),
    Kind("keepass_entry", f(pws), "# KeePass entry\n# Password: {v}", "keepassxc-cli add db.kdbx mail --password-prompt <<< '{v}'  # password", "<String><Key>Password</Key><Value>{v}</Value></String>", "the entry says user jane, password {v}", "keepass.info/help/kb/kdbx.html"),
    Kind("nkey_tor", secret_in("ED25519-V3:", lambda r: b64(r, 64)), "TOR_KEY={v}", "ADD_ONION {v} Port=80", "onion_key: {v}", "the onion service key: {v}", "spec.torproject.org/control-spec/commands.html"),
    Kind("b32_seed", f(lambda r: pick(r, B32, 26)), "TWO_FACTOR_SECRET={v}", "oathtool -b --totp {v}", '{"otp_secret": "{v}"}', "2fa secret: {v}", "google/google-authenticator wiki Key-Uri-Format"),
)
# fmt: on
