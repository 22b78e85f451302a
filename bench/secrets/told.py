# ruff: noqa: E501 - a kind per line reads as the table it is
"""Kinds that people and programs make: passwords, connection strings, key files, hashes, sentences."""

import base64
import string

from bench.secrets.kind import BEARER, S, k, t
from bench.secrets.makers import (
    ALNUM,
    B32,
    BECH,
    HEX,
    LOW,
    URLSAFE,
    b64,
    b64u,
    basic,
    bcrypt,
    card,
    f,
    g,
    iban,
    jwe,
    jwt,
    p,
    parts,
    pem,
    pgp,
    pick,
    ppk,
    pw,
    pws,
    recovery,
    secret_in,
    seed_words,
    url,
    vault_text,
    wif,
)

# fmt: off
# --- databases
k("postgres_url", url("postgres", "app,postgres", "db.acme.io:5432", "/app"), "DATABASE_URL={v}", 'psql "{v}"', 'database:\n  url: "{v}"', "connect with {v} for staging")
k("postgres_async_url", url("postgresql+asyncpg", "app,svc", "10.0.0.4", "/app"), "SQLALCHEMY_DATABASE_URI={v}", "alembic -x url={v} upgrade head", 'engine = create_async_engine("{v}")', "the url is {v}")
k("mysql_url", url("mysql+pymysql", "root,app", "127.0.0.1:3306", "/shop?charset=utf8mb4"), "DB_URL={v}", "dbmate --url '{v}' up", "sqlalchemy.url = {v}", "use {v} locally")
k("mongo_srv", url("mongodb+srv", "app,admin", "cluster0.ab1cd.mongodb.net", "/prod?retryWrites=true&w=majority"), "MONGODB_URI={v}", 'mongosh "{v}"', 'mongoose.connect("{v}")', "atlas is {v}")
k("redis_url", secret_in("redis://:", pw, "@cache.acme.io:6379/0"), "REDIS_URL={v}", "redis-cli -u {v} ping", 'broker_url = "{v}"', "celery talks to {v}")
k("rediss_url", url("rediss", "default", "usw1-x.upstash.io:33079", ""), "KV_URL={v}", "redis-cli --tls -u {v}", '{"kv": "{v}"}', "kv is at {v} now")
k("amqp_url", url("amqps", "guest,worker", "mq.acme.io:5671", "/vhost"), "RABBIT={v}", "celery -b {v} worker", "broker: {v}", "rabbit runs at {v}")
k("clickhouse_url", url("clickhouse", "default", "ch.acme.io:9440", "/logs?secure=true"), "CLICKHOUSE={v}", "migrate -database '{v}' up", "dsn: '{v}'", "clickhouse is {v}")
k("mssql_ado", secret_in("Server=tcp:acme.database.windows.net,1433;Initial Catalog=app;User ID=sa;Password=", pw, ";Encrypt=True;"), 'ConnectionStrings__Default="{v}"', "dotnet ef database update --connection \"{v}\"", '{"ConnectionStrings": {"Default": "{v}"}}', "the connection string is {v}")
k("mssql_odbc", secret_in("DRIVER={ODBC Driver 18 for SQL Server};SERVER=db;UID=sa;PWD=", pw, ";TrustServerCertificate=yes"), "ODBC='{v}'", 'python load.py --odbc "{v}"', 'pyodbc.connect("{v}")', "odbc string: {v}")
k("libpq_dsn", secret_in("host=db.acme.io port=5432 dbname=app user=app password=", pw), "PG_DSN='{v}'", "psql '{v}'", 'conn = psycopg.connect("{v}")', "it is {v}")
k("jdbc_query", secret_in("jdbc:postgresql://db:5432/app?user=app&password=", pw), "JDBC_URL={v}", "flyway -url='{v}' migrate", "spring.datasource.url={v}", "spring has {v}")
k("jdbc_oracle", secret_in("jdbc:oracle:thin:scott/", pw, "@//ora.acme.io:1521/ORCL"), "ORA_URL={v}", "sqlcl {v}", "url: {v}", "the oracle url is {v}")
k("snowflake_url", url("snowflake", "jane,etl", "acme-xy12345", "/db/public?warehouse=wh"), "SNOWFLAKE={v}", "dbt run --vars '{dsn: \"{v}\"}'", 'create_engine("{v}")', "snowflake: {v}")
k("neo4j_auth", f(pw), "NEO4J_AUTH=neo4j/{v}", "cypher-shell -u neo4j -p {v}", 'GraphDatabase.driver("bolt://db", auth=("neo4j", "{v}"))', "neo4j password is {v}")
k("pgpassword", f(pw), "PGPASSWORD={v}", "PGPASSWORD={v} psql -h db -U app app", 'os.environ["PGPASSWORD"] = "{v}"', "PGPASSWORD is {v} there")
k("pgpass_file", f(pw), "# ~/.pgpass\ndb.acme.io:5432:app:app:{v}", "echo 'localhost:5432:*:postgres:{v}' > ~/.pgpass", "db.acme.io:5432:*:jane:{v}\n", "my pgpass line: db:5432:app:jane:{v}")
k("mysql_cli", f(pw), "MYSQL_ROOT_PASSWORD={v}", "mysql -h db -u root -p{v} shop", "[client]\nuser=root\npassword={v}", "the mysql root password is {v}")
k("mysqldump_cli", f(pw), "MYSQL_PWD={v}", "mysqldump --user=root --password={v} shop > d.sql", "ALTER USER 'root'@'%' IDENTIFIED BY '{v}';", "mysql root pw: {v}")
k("mongo_cli", f(pw), "MONGO_INITDB_ROOT_PASSWORD={v}", "mongosh --host db -u admin -p {v} --authenticationDatabase admin", 'db.createUser({user: "app", pwd: "{v}", roles: []})', "mongo admin password {v}")
k("redis_auth", f(pw), "REDIS_PASSWORD={v}", "redis-cli -h cache -a {v} ping", "requirepass {v}\nmaxmemory 1gb", "redis auth is {v}")
k("sqlcmd", f(pw), "SA_PASSWORD={v}", "sqlcmd -S localhost -U sa -P {v} -Q 'select 1'", "CREATE LOGIN app WITH PASSWORD = '{v}';", "sa password is {v}")
k("create_role", f(pw), "POSTGRES_PASSWORD={v}", "psql -c \"CREATE ROLE app LOGIN PASSWORD '{v}'\"", "ALTER USER app WITH ENCRYPTED PASSWORD '{v}';", "the app role has password {v}")
k("influx_token", f(lambda r: b64u(r, 64) + "=="), "INFLUX_TOKEN={v}", "influx query --token {v} 'x'", "influx:\n  token: {v}", "the influx token is {v}")
k("cassandra_py", f(pw), "CASSANDRA_PASSWORD={v}", "cqlsh -u cassandra -p {v} db", "PlainTextAuthProvider(username='cassandra', password='{v}')", "cassandra password: {v}")
k("turso", jwt, "TURSO_AUTH_TOKEN={v}", "turso db shell 'libsql://x.turso.io?authToken={v}'", 'authToken: "{v}"', "turso: {v}")
# --- HTTP
k("bearer_opaque", f(lambda r: pick(r, URLSAFE, r.randrange(24, 64))), "AUTH_HEADER='Bearer {v}'", BEARER + "https://api.acme.io/v1", '{"headers": {"Authorization": "Bearer {v}"}}', "send Authorization: Bearer {v} with it")
k("basic_header", basic, "BASIC='Basic {v}'", "curl -H 'Authorization: Basic {v}' https://api.acme.io", 'headers = {"Authorization": "Basic {v}"}', "the header is Authorization: Basic {v}")
k("curl_user", f(pw), "CURL_OPTS='-u jane:{v}'", "curl -u jane:{v} https://nexus.acme.io/x", 'subprocess.run(["curl", "-u", "jane:{v}", url])', "I called curl --user jane:{v} https://x.io")
k("wget_password", f(pw), "WGET_PASSWORD={v}", "wget --user=jane --password='{v}' https://x.io/a", "http_password = {v}", "wget takes --password={v}")
k("https_userinfo", url("https", "jane,oauth2,ci", "git.acme.io", "/acme/app.git"), "REMOTE={v}", "git clone {v}", 'url = "{v}"', "origin is {v}")
k("proxy_url", url("http", "jane,proxyuser", "proxy.acme.io:3128", ""), "HTTPS_PROXY={v}", "export https_proxy={v}", "proxy = {v}", "the proxy is {v}")
k("smtp_url", url("smtps", "mailer,no-reply", "smtp.acme.io:465", ""), "EMAIL_SERVER={v}", "swaks --uri {v}", "mailer_dsn: '{v}'", "mail goes over {v}")
k("sftp_url", url("sftp", "deploy,up", "files.acme.io", "/in"), "SFTP={v}", "lftp {v}", "target: {v}", "upload to {v}")
k("cookie_session", f(lambda r: pick(r, URLSAFE, 48)), "COOKIE='sessionid={v}'", "curl -b 'sessionid={v}' https://x.io/admin", '"Cookie": "theme=dark; sessionid={v}; lang=en"', "set the cookie sessionid={v} and reload")
k("cookie_header", f(lambda r: pick(r, ALNUM + "%", 60)), "COOKIE='connect.sid=s%3A{v}'", "curl -H 'Cookie: connect.sid=s%3A{v}; a=1' https://x.io", "Set-Cookie: connect.sid=s%3A{v}; Path=/; HttpOnly", "my Cookie: connect.sid=s%3A{v}")
k("set_cookie_php", f(lambda r: pick(r, LOW, 26)), "PHPSESSID={v}", "curl --cookie PHPSESSID={v} https://x.io", "Set-Cookie: PHPSESSID={v}; path=/", "use PHPSESSID={v} to get in")
k("csrf_api_query", f(lambda r: pick(r, ALNUM, 32)), "URL='https://api.acme.io/v1?api_key={v}'", 'curl "https://api.acme.io/v1/items?limit=5&api_key={v}"', 'fetch("https://api.acme.io/v1?token={v}&x=1")', "open https://api.acme.io/v1?access_token={v} in the browser")
k("x_api_key", f(lambda r: pick(r, ALNUM, 40)), "X_API_KEY={v}", "curl -H 'X-API-Key: {v}' https://api.acme.io", '{"x-api-key": "{v}"}', "the API key is {v}")
k("httpie", f(lambda r: pick(r, ALNUM, 32)), "SERVICE_TOKEN={v}", "http GET https://api.acme.io X-Auth-Token:{v}", 'requests.get(u, headers={"X-Auth-Token": "{v}"})', "auth token {v}")
k("requests_auth", f(pw), "API_PASSWORD={v}", "http -a jane:{v} https://api.acme.io", 'requests.get(u, auth=("jane", "{v}"))', "login is jane / {v}")
k("digest_user", f(pw), "ADMIN_PASS={v}", "curl --digest --user 'admin:{v}' http://cam/stream", "auth_pass: {v}", "log in as admin with password {v}")
# --- keys and hashes
k("rsa_pem", pem("RSA PRIVATE KEY", 600), "KEY='{v}'", "ssh-add - <<X\n{v}\nX", 'key: "{j}\\n"', "my key:\n{v}\nplease deploy")
k("ec_pem", pem("EC PRIVATE KEY", 121), "EC_KEY=\"{j}\"", "openssl ec <<X\n{v}\nX", "tls:\n  key: |\n    {i}\n", "the ec one\n{v}")
k("pkcs8_encrypted", pem("ENCRYPTED PRIVATE KEY", 640), "KEY='{v}'", "openssl pkcs8 <<X\n{v}\nX", 'const KEY = `{v}`;', "it is\n{v}")
k("openssh_key", pem("OPENSSH PRIVATE KEY", 300), "SSH_KEY=\"{j}\"", "cat > ~/.ssh/id <<X\n{v}\nX", "ssh_key: |\n  {i}\n", "here is the key\n{v}\n")
k("dsa_pem", pem("DSA PRIVATE KEY", 330), "DSA='{v}'", "cat <<X > k\n{v}\nX", '{"pem": "{j}"}', "old dsa\n{v}\n")
k("pgp_key", pgp, "GPG_PRIVATE_KEY='{v}'", "gpg --import <<X\n{v}\nX", 'gpg: "{j}"', "gpg export:\n{v}\n")
k("putty_key", ppk, "PPK='{v}'", "cat > k.ppk <<X\n{v}\nX", 'ppk = """{v}"""', "putty file\n{v}\n")
k("age_key", p("AGE-SECRET-KEY-1", BECH.upper(), 58), "SOPS_AGE_KEY={v}", "age -d -i <(echo {v}) x.age", "# public key: age1x\n{v}", "sops decrypts with {v}")
k("jwk_private", parts('{"kty":"OKP","crv":"Ed25519","d":"', g(URLSAFE, 43), '","x":"', lambda _: "x1", '"}'), "JWK='{v}'", "step crypto jwk sign '{v}'", "jwk: {v}", "the jwk is {v}")
k("wireguard", f(lambda r: b64(r, 32)), "WG_PRIVATE_KEY={v}", "wg set wg0 private-key <(echo {v})", "[Interface]\nPrivateKey = {v}\nAddress = 10.0.0.2/32", "the wireguard private key is {v}")
k("wireguard_psk", f(lambda r: b64(r, 32)), "WG_PRESHARED_KEY={v}", "echo {v} | wg set wg0 peer abc preshared-key /dev/stdin", "[Peer]\nPresharedKey = {v}\n", "preshared key: {v}")
k("jwt", jwt, "JWT={v}", BEARER + "https://api.acme.io", 'const token = "{v}";', "I get {v} back from login")
k("jwe", jwe, "TOKEN={v}", BEARER + "https://api.acme.io", '{"id_token": "{v}"}', "the response was {v} here")
k("bcrypt_hash", f(bcrypt), "ADMIN_HASH='{v}'", "echo '{v}' > admin.hash", 'password_hash: "{v}"', "the row has {v} in it")
k("htpasswd", secret_in("jane:$apr1$", lambda r: pick(r, ALNUM + "./", 8) + "$" + pick(r, ALNUM + "./", 22)), "HTPASSWD='{v}'", "echo '{v}' >> .htpasswd", "basicauth.users={v}", "htpasswd line {v}")
k("argon2", secret_in("$argon2id$v=19$m=65536,t=3,p=4$", lambda r: b64(r, 16).rstrip("=") + "$" + b64(r, 32).rstrip("=")), "HASH='{v}'", "echo '{v}' | argon2-verify", '"hash": "{v}"', "argon2 hash {v}")
k("sha512crypt", secret_in("$6$", lambda r: pick(r, ALNUM + "./", 16) + "$" + pick(r, ALNUM + "./", 86)), "ROOTPW='{v}'", "usermod -p '{v}' jane", "passwd: '{v}'", "shadow says {v}")
k("django_hash", secret_in("pbkdf2_sha256$600000$", lambda r: pick(r, ALNUM, 22) + "$" + b64(r, 32)), "HASH='{v}'", "psql -c \"update auth_user set password='{v}'\"", '"password": "{v}"', "the user row has {v}")
k("django_secret_key", f(lambda r: "django-insecure-" + pick(r, LOW + "!@#$%^&*(-_=+)", 50)), "DJANGO_SECRET='{v}'", "SECRET_KEY='{v}' ./manage.py check", "SECRET_KEY = '{v}'", "settings has {v}")
k("flask_secret", f(lambda r: pick(r, HEX, 48)), "SECRET_KEY={v}", "FLASK_SECRET_KEY={v} flask run", 'app.config["SECRET_KEY"] = "{v}"', "the flask secret key is {v}")
k("rails_master", f(lambda r: pick(r, HEX, 32)), "RAILS_MASTER_KEY={v}", "RAILS_MASTER_KEY={v} rails s", "secret_key_base: {v}", "the rails master key is {v}")
k("laravel_key", f(lambda r: "base64:" + b64(r, 32)), "APP_KEY={v}", "APP_KEY={v} php artisan serve", "'key' => '{v}',", "laravel's app key is {v}")
k("nextauth", f(lambda r: b64(r, 32)), "NEXTAUTH_SECRET={v}", "NEXTAUTH_SECRET={v} next start", 'secret: "{v}",', "nextauth secret is {v}")
k("fernet", f(lambda r: base64.urlsafe_b64encode(r.randbytes(32)).decode()), "FERNET_KEY={v}", "AIRFLOW__CORE__FERNET_KEY={v} airflow db init", 'Fernet(b"{v}")', "the fernet key is {v}")
k("encryption_key", f(lambda r: pick(r, HEX, 64)), "ENCRYPTION_KEY={v}", "openssl enc -aes-256-cbc -K {v} -iv 0 -in x", '{"encryptionKey": "{v}"}', "data encryption key: {v}")
k("jwt_secret", f(pw), "JWT_SECRET={v}", "JWT_SECRET={v} npm start", 'jwt.sign(p, "{v}")', "the jwt secret is {v}")
k("webhook_secret", f(lambda r: pick(r, ALNUM, 32)), "WEBHOOK_SECRET={v}", "gh webhook forward --secret={v}", "webhookSecret: {v}", "webhook secret: {v}")
k("eth_private", f(lambda r: "0x" + pick(r, HEX, 64)), "PRIVATE_KEY={v}", "forge create C --private-key {v}", 'accounts: ["{v}"]', "the deployer private key is {v}")
k("btc_wif", f(wif), "WIF={v}", "bitcoin-cli importprivkey {v}", "wif: {v}", "sweep {v} into cold storage")
k("seed_phrase_12", seed_words(12), 'MNEMONIC="{v}"', 'cast wallet derive --mnemonic "{v}"', 'mnemonic: "{v}"', "my seed phrase is {v}")
k("seed_phrase_24", seed_words(24), 'SEED_PHRASE="{v}"', 'hw restore --seed "{v}"', '{"mnemonic": "{v}"}', "recovery phrase: {v}")
k("totp_uri", parts("otpauth://totp/Acme:jane@acme.io?secret=", g(B32, 32), "&issuer=Acme"), "TOTP_URI='{v}'", "qrencode '{v}'", 'uri = "{v}"', "scan {v} please")
k("totp_secret", f(lambda r: pick(r, B32, 32)), "TOTP_SECRET={v}", "oathtool --totp -b {v}", 'pyotp.TOTP("{v}")', "the TOTP secret is {v}")
k("recovery_codes", recovery, "# recovery codes\n{v}", "cat > recovery-codes.txt <<X\n{v}\nX", "recovery_codes:\n{v}\n", "my recovery codes:\n{v}\nkeep them")
k("card", f(card), "TEST_CARD={v}", "curl -d 'card[number]={v}' https://pay.acme.io", '{"card_number": "{v}"}', "he paid with {v} exp 04/29")
k("iban", f(iban), "IBAN={v}", "sepa --iban '{v}'", '{"iban": "{v}"}', "pay it to {v} by Friday")
k("ssn", f(lambda r: f"{r.randrange(101, 665):03d}-{r.randrange(10, 99)}-{r.randrange(1000, 9999)}"), "SSN={v}", "lookup --ssn {v}", '{"ssn": "{v}"}', "her social security number is {v}")
# --- kubernetes and tools
k("k8s_secret", f(lambda r: base64.b64encode(pw(r).encode()).decode()), "DB_PASSWORD_B64={v}", "kubectl patch secret db -p '{\"data\": {\"password\": \"{v}\"}}'", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  password: {v}\n", "the secret's password: {v} (base64)")
k("k8s_secret_other", f(lambda r: base64.b64encode(pws(r).encode()).decode()), "# kubectl get secret app -o yaml\n# kind: Secret\n# data:\n#   dsn: {v}", "echo {v} | base64 -d  # db password", "apiVersion: v1\nkind: Secret\ndata:\n  dsn: {v}\n", "kind: Secret has data:\n  token: {v}\n")
k("k8s_literal", f(pws), "DB_PASS='{v}'", "kubectl create secret generic db --from-literal=password='{v}'", "stringData:\n  password: '{v}'\n", "the k8s db password is {v}")
k("k8s_sa_token", jwt, "SA_TOKEN={v}", "kubectl --token={v} get pods", "users:\n- name: ci\n  user:\n    token: {v}\n", "service account token {v}")
k("kubeconfig_client_key", f(lambda r: base64.b64encode(("-----BEGIN RSA PRIVATE KEY-----\n" + b64(r, 600)).encode()).decode()), "CLIENT_KEY={v}", "kubectl config set users.a.client-key-data {v}", "    client-key-data: {v}\n", "client-key-data: {v}")
k("helm_set", f(pw), "HELM_DB_PASSWORD={v}", "helm upgrade app ./c --set postgresql.auth.password={v}", "postgresql:\n  auth:\n    postgresPassword: {v}\n", "helm value auth.password is {v}")
k("ansible_vault", vault_text, "# vault\n{v}", "cat > v.yml <<X\n{v}\nX", "db_password: !vault |\n  {i}\n", "the vaulted file:\n{v}\n")
k("ansible_become", f(pw), "ANSIBLE_BECOME_PASS={v}", "ansible-playbook x.yml -e ansible_become_pass={v}", "web1 ansible_host=10.0.0.1 ansible_ssh_pass={v}", "the sudo password on web1 is {v}")
k("sshpass", f(pw), "SSHPASS={v}", "sshpass -p {v} ssh root@10.0.0.9", 'ssh.connect("h", username="root", password="{v}")', "root password of that box is {v}")
k("smb_cred", f(pw), "SMB_PASSWORD={v}", "smbclient //nas/share -U jane%{v}", "username=jane\npassword={v}\ndomain=ACME", "the NAS password is {v}")
k("mount_cifs", f(pw), "CIFS_PASS={v}", "mount -t cifs //nas/s /mnt -o username=jane,password={v}", "//nas/s /mnt cifs username=jane,password={v} 0 0", "mount with password={v}")
k("openssl_pass", f(pw), "PASSPHRASE={v}", "openssl rsa -in k.pem -passin pass:{v}", "passphrase: {v}", "the key's passphrase is {v}")
k("gpg_passphrase", f(pw), "GPG_PASSPHRASE={v}", "gpg --batch --passphrase {v} -c x", "gpg.passphrase={v}", "gpg passphrase {v}")
k("keystore", f(pw), "KEYSTORE_PASSWORD={v}", "keytool -list -keystore k.jks -storepass {v}", "storePassword={v}\nkeyAlias=key0", "the keystore password is {v}")
k("zip_password", f(pw), "ZIP_PASSWORD={v}", "7z x a.7z -p{v}", "archive_password: {v}", "unzip it with password {v}")
k("wifi_psk", f(pw), "WIFI_PASSWORD={v}", "nmcli dev wifi connect Acme password {v}", 'network={\n  ssid="Acme"\n  psk="{v}"\n}', "the wifi password is {v}")
k("ldap_bind", f(pws), "LDAP_BIND_PASSWORD='{v}'", "ldapsearch -x -D cn=admin,dc=acme -w '{v}'", 'bindpw {v}\nbinddn cn=admin,dc=acme', "the ldap bind password is {v}")
k("smtp_password", f(lambda r: " ".join(pick(r, string.ascii_lowercase, 4) for _ in range(4))), "GMAIL_APP_PASSWORD='{v}'", "swaks --auth-user a@b.io --auth-password '{v}'", 'EMAIL_HOST_PASSWORD = "{v}"', "the gmail app password is {v}")
k("restic", f(pw), "RESTIC_PASSWORD={v}", "RESTIC_PASSWORD={v} restic snapshots", "repo_password: {v}", "restic repo password: {v}")
k("chpasswd", f(pw), "ROOT_PASSWORD={v}", "echo 'root:{v}' | chpasswd", "chpasswd:\n  list: |\n    root:{v}\n", "root login is root:{v}")
k("powershell_secure", f(pw), "$env:DB_PASSWORD = '{v}'", "ConvertTo-SecureString '{v}' -AsPlainText -Force", "net user jane {v} /add", "the admin password on the windows box is {v}")
k("java_properties", f(pw), "SPRING_DATASOURCE_PASSWORD={v}", "java -Dspring.datasource.password={v} -jar a.jar", "spring.datasource.password={v}", "datasource password {v}")
k("wp_config", f(pws), "WORDPRESS_DB_PASSWORD='{v}'", "wp config set DB_PASSWORD '{v}'", "define( 'DB_PASSWORD', '{v}' );", "the wordpress db password is {v}")
k("go_struct", f(pw), "APP_DB_PASS={v}", "go run . -password {v}", 'cfg := Config{User: "app", Password: "{v}"}', "pass for app is {v}")
k("rust_const", f(lambda r: pick(r, ALNUM, 40)), "API_SECRET={v}", "cargo run -- --api-secret {v}", 'const API_SECRET: &str = "{v}";', "the api secret is {v}")
k("ps_login_table", f(pw), "# user | password\n# jane | {v}", "login: jane password: {v}", "| user | password |\n|---|---|\n| jane | {v} |", "User: jane\nPassword: {v}\nURL: https://x.io")
k("vnc", f(pw), "VNC_PASSWORD={v}", "x11vnc -passwd {v}", "vncpasswd = {v}", "vnc password is {v}")
k("openvpn_authfile", f(pw), "VPN_PASS={v}", "printf 'jane\\n{v}\\n' > auth.txt  # vpn password", "<auth-user-pass>\njane\n{v}\n</auth-user-pass>", "the vpn password is {v}")
# --- other languages, prose
k("german_prose", f(pw), "PASSWORT={v}", "# Passwort: {v}", 'passwort: "{v}"', "das Passwort ist {v}, bitte nicht weitergeben")
k("german_zugang", f(pw), "KENNWORT={v}", "# Zugang jane, Kennwort {v}", "kennwort = {v}", "Das Kennwort für den Staging-Server lautet {v}")
k("chinese_prose", f(pw), "MIMA={v}  # 密码", "# 数据库密码: {v}", "密码: {v}", "密码是 {v}")
k("chinese_prose_tight", f(pw), "# 管理员密码={v}", "# 口令:{v}", '{"密码": "{v}"}', "服务器的密码为{v},不要改")
k("chinese_token", f(lambda r: pick(r, ALNUM, 32)), "# 令牌: {v}", "# 访问令牌 {v}", "密钥: {v}", "API 密钥是 {v}")
k("japanese_prose", f(pw), "# パスワード: {v}", "# パスワード={v}", "パスワード: {v}", "パスワードは {v} です")
k("french_prose", f(pw), "MOT_DE_PASSE={v}", "# mot de passe : {v}", "mot_de_passe: {v}", "le mot de passe est {v}")
k("spanish_prose", f(pw), "CONTRASENA={v}", "# contraseña: {v}", "contraseña: {v}", "la contraseña es {v}")
k("russian_prose", f(pw), "PAROL={v} # пароль", "# пароль: {v}", "пароль: {v}", "пароль от базы {v}")
k("portuguese_prose", f(pw), "SENHA={v}", "# senha: {v}", "senha: {v}", "a senha é {v}")
k("korean_prose", f(pw), "# 비밀번호: {v}", "# 비밀번호={v}", "비밀번호: {v}", "비밀번호는 {v} 입니다")
k("english_password_prose", f(pws), "PASSWORD='{v}'", "login --password '{v}'", 'password: "{v}"', "password for staging is {v}")
k("english_creds_prose", f(pw), "CREDS=admin:{v}", "# creds: admin / {v}", 'credentials: "admin:{v}"', "credentials are admin / {v}")
k("english_log_in_with", f(pw), "LOGIN_PASSWORD={v}", "# log in with jane and {v} as the password", "username: jane\npasswd: {v}", "log in as jane, the password is '{v}'")
k("pin_code", f(lambda r: pick(r, string.digits, 6)), "CARD_PIN={v}", "unlock --pin {v}", '{"pin": "{v}"}', "the PIN is {v}")
k("connection_uri_ftp", url("ftp", "jane,ftpuser", "ftp.acme.io", "/pub"), "FTP_URL={v}", "curl -T a.zip {v}", "remote: {v}", "deploy via {v}")
k("kafka_sasl", f(pws), "KAFKA_SASL_PASSWORD='{v}'", "kcat -b k:9092 -X sasl.password='{v}' -L", 'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="app" password="{v}";', "kafka sasl password is {v}")
k("nats_creds", parts("-----BEGIN USER NKEY SEED-----\nSU", g(B32, 56), "\n------END USER NKEY SEED------"), "NATS='{v}'", "cat > u.creds <<X\n{v}\nX", 'creds = """{v}"""', "nats creds\n{v}\n")
k("nkey_bare", p("SUA", B32, 55), "NATS_NKEY_SEED={v}", "nats --nkey <(echo {v}) pub x y", "nkey_seed: {v}", "the nkey seed is {v}")
k("minio", f(lambda r: pick(r, ALNUM, 40)), "MINIO_ROOT_PASSWORD={v}", "mc alias set s3 http://m:9000 minioadmin {v}", "secretKey: {v}", "the minio secret key is {v}")
k("restapi_oauth_form", f(lambda r: pick(r, URLSAFE, 40)), "OAUTH_CLIENT_SECRET={v}", "curl -d 'grant_type=client_credentials&client_id=app&client_secret={v}' https://x.io/token", '{"clientSecret": "{v}"}', "client secret: {v}")
k("access_token_json", f(lambda r: pick(r, URLSAFE, 64)), "ACCESS_TOKEN={v}", "curl -d access_token={v} https://x.io", '{"access_token":"{v}","token_type":"bearer","expires_in":3600}', "access token is {v}")
k("escaped_json", f(pw), "CONFIG='{\"password\":\"{v}\"}'", 'curl -d "{\\"user\\":\\"jane\\",\\"password\\":\\"{v}\\"}" https://x.io', '"body": "{\\"password\\": \\"{v}\\"}"', 'the log shows {\\"password\\":\\"{v}\\"}')
k("xml_attr", f(pw), "XML_PW={v}", "sed -i 's/x/password=\"{v}\"/' a.xml", '<add key="DbPassword" value="{v}" />', '<user name="jane" password="{v}"/> is in there')
k("yaml_env_list", f(pw), "- name: DB_PASSWORD\n  value: {v}", "docker run -e DB_PASSWORD={v} app", "env:\n  - name: DB_PASSWORD\n    value: \"{v}\"\n", "set DB_PASSWORD to {v}")
k("toml_secret", f(lambda r: pick(r, ALNUM, 32)), "SERVICE__API_KEY={v}", "app --api-key={v}", '[service]\napi-key = "{v}"', "api key = {v}")
k("git_credential", url("https", "jane,x-access-token", "github.com", ""), "# ~/.git-credentials\n{v}", "echo {v} > ~/.git-credentials", "{v}\n", "git-credentials has {v}")
k("rclone", f(lambda r: pick(r, URLSAFE, 32)), "RCLONE_CONFIG_R_PASS={v}", "rclone config create r sftp pass={v}", "[r]\ntype = sftp\npass = {v}", "rclone config pass is {v}")
t("firebase_fcm", parts("AAAA", g(URLSAFE, 7), ":APA91b", g(URLSAFE, 134)), "FCM_SERVER", "https://fcm.googleapis.com/fcm/send", "fcm", S, "Authorization: key=")
t("vapid_private", p("", URLSAFE, 43), "VAPID_PRIVATE_KEY", "https://x.io", "vapidPrivateKey", "the vapid private key is {v}", "X-Private-Key")
t("recaptcha", p("6L", URLSAFE, 38), "RECAPTCHA_SECRET_KEY", "https://www.google.com/recaptcha/api/siteverify", "recaptcha_secret", "recaptcha secret key {v}", "X-Secret")
