"""Redaction: what must go, what must stay, how fast, and that its time grows with the text only.

No secret here is real. A bar | inside each keeps scanners of repositories quiet and is taken out before use.
"""

import base64
import random
import subprocess
import sys
from collections import Counter

import pytest

from memory_mcp.redact.redact import Redactor, strip_private
from tests.work import calls

REDACTOR = Redactor()

HEX40 = "3f786850e387550fdab836ed7e6dc881de23001b"
PEM = """-----BEGIN RSA PRIV|ATE KEY-----
MIIEpAIBAAKCAQEA0m5kq0Jc1n8mTt0yJZ7GQ3n2hWq8c4uU1r6v0x9YkP5fL2dB
b7Hq3VtXo5sJw8uCz1eRfG6yN0aKpM4iTlDgQhWvEoBjZkYxUcSrAnPtOmLqIdHw
-----END RSA PRIV|ATE KEY-----"""

#: (rule, text before, secret, text after)
POSITIVES = [
    ("openai", "key ", "sk-|4fK9mZ2qLw7Rt8Yx1Bv6Nc3Hd5Js0PgTuEiOaQzWxSeDc", " is it"),
    ("openai", "OPENAI: ", "sk-|proj-aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z_T3Bl|bkFJaB3dE5fG7hJ9kL1mN3pQ", ""),
    ("anthropic", "use ", "sk-|ant-api03-Zx8Yw7Vu6Ts5Rq4Po3Nm2Lk1Ji0Hg9Fe8Dc7Ba6_Zx8Yw7-AA", " now"),
    ("github", "git clone with ", "gh|p_16C7e42F292c6912E7710c838347Ae178B4a", "."),
    ("github", "", "gh|o_16C7e42F292c6912E7710c838347Ae178B4a", ""),
    ("github", "pat: ", "github|_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789aBcDeFgHiJkLmNoPqRs", ""),
    ("gitlab", "export T=", "gl|pat-x7Kq2mVn9RtY4wZs8LbC", ""),
    ("aws-access-key", "AWS_ACCESS_KEY_ID=", "AK|IAZ7QK3MNVT5RWXY2P", ""),
    ("aws-secret-key", "aws_secret_access_key = ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzQ8vN2kT4h", ""),
    ("aws-secret-key", '"SecretAccessKey": "', "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzQ8vN2kT4h", '"'),
    ("google", "maps ", "AI|zaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", ""),
    ("slack", "", "xo|xb-263594206564-2343594206574-FGqddMF8t08v8N7Oq4i57vs1", ""),
    ("slack", "post to ", "https://hooks.sl|ack.com/services/T024BE7LD/B024BE7LD/x7Kq2mVn9RtY4wZs8LbCdE3f", ""),
    ("stripe", "", "sk|_live_4eC39HqLyjWDarjtT1zdp7dc", ""),
    ("stripe", "rk: ", "rk|_live_4eC39HqLyjWDarjtT1zdp7dcXX12", ""),
    ("npm", "//registry.npmjs.org/:_authToken=", "np|m_8fK2mZ9qLw7Rt4Yx1Bv6Nc3Hd5Js0PgTuEi8", ""),
    ("pypi", "", "py|pi-AgEIcHlwaS5vcmcCJDU3ZTk3NGY2LTk4YWItNDRmYy1iNzM5LTk3ZDk0YzM4YWJjMwACKlszLCI2", ""),
    ("huggingface", "HF ", "h|f_qWeRtYuIoPaSdFgHjKlZxCvBnM12345678", ""),
    (
        "jwt",
        "cookie ",
        "ey|JhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
        " set",
    ),
    ("private-key", "here:\n", PEM, "\nthat was it"),
    ("url-password", "postgres://app:", "hun|ter2x", "@db.example.org:5432/shop"),
    ("url-password", "redis://:", "s3cr|3tValue", "@cache:6379/0"),
    ("url-password", "mongodb+srv://root:", "Tr0ub4|dor", "@cluster0.mongodb.net"),
    ("authorization", "Authorization: Bearer ", "q7Xk2mVn9|RtY4wZs8LbCdE3f", ""),
    ("authorization", "curl -H 'Authorization: Basic ", "YWxhZGRpbjpvcGVuc2|VzYW1l", "' x"),
    ("bearer", "header bearer ", "q7Xk2mVn9R|tY4wZs8LbCdE3fG", ""),
    ("assignment", "DB_PASSWORD=", "Tr0ub4|dor&3"[:-2], ""),
    ("assignment", "DB_PASSWORD=", "correcthorse|battery", ""),
    ("assignment", "password: '", "hun|ter2!", "'"),
    ("assignment", '{"user": "x", "password": "', "p4ss|w0rd!", '"}'),
    ("assignment", "api_key: ", "9f8e7d6c5b4a39281706f|5e4d3c2b1a0", ""),
    ("assignment", 'const apiKey = "', "Zk3vQ9xR7mT2wL5nB8cD|1fG4", '";'),
    ("assignment", "secret_key = '", "q7Xk2mVn9RtY4wZs8|LbCdE3fG", "'"),
    ("assignment", "client_secret=", "q7Xk2mVn9RtY4wZs8|LbCdE3fG", "&grant_type=x"),
    ("assignment", '{\\"token\\": \\"', "q7Xk2mVn9RtY4w|Zs8LbCdE3fG", '\\"}'),
    ("assignment", "Server=db;User Id=sa;Password=", "Pa55w0|rd!x", ";Encrypt=true"),
    ("assignment", "STRIPE_KEY=", "q7Xk2mVn9RtY4w|Zs8LbCdE3fG", ""),
    ("assignment", "deploy --token ", "q7Xk2mVn9RtY4w|Zs8LbCdE3fG", " --verbose"),
    ("assignment", "x-api-key: ", "q7Xk2mVn9RtY4w|Zs8LbCdE3fG", ""),
    ("assignment", "session_token: ", "3f786850-e387-450f-dab8|-36ed7e6dc881", ""),
    ("curl-login", "curl -u admin:", "s3cr|3tpw", " https://example.org"),
    ("azure", "DefaultEndpointsProtocol=https;", "Account|Key=" + "q7Xk2mVn9RtY4wZs8LbC" * 4 + "q7Xk2m==", ";"),
    ("sendgrid", "", "S|G.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf-09kqeF8tAmbihYzrnopKc-1s5cr", ""),
    ("twilio", "sid ", "A|C3f786850e387550fdab836ed7e6dc881", ""),
    ("telegram", "bot ", "110201543:A|AHdqTcvCH1vGWJxfSeofSAs0K5PALDsawx", ""),
    ("discord", "", "MTAx|MDEwMTAxMDEwMTAxMDEw.GxYzAb.q7Xk2mVn9RtY4wZs8LbCdE3fG5h", ""),
    ("discord", "https://", "discord.c|om/api/webhooks/123456789012345678/q7Xk2mVn9RtY4wZs8LbCdE3fG5hJ6k", ""),
    ("google", "", "GOC|SPX-q7Xk2mVn9RtY4wZs8LbCdE3fG5h", ""),
    ("vault", "", "hv|s.CAESIJq7Xk2mVn9RtY4wZs8LbCdE3fG5h", ""),
    ("cloudflare", "", "cf|ut_SYjoJnRgdqOlFkVSa37vIoA3eUekKUH8uhuIbXadipyIHGE7", " is ours"),
    ("together", "put ", "tg|p_v1_NOnZ7qOzlK41TLDXOTM7P9nFA9vIPgPj9wv5tTEnhW", " there"),
    ("google", "interop ", "GO|OGDZJP7WGBPBQAJQLT2533", ""),
    (
        "salesforce",
        "sf: ",
        "00|DmtiuXGVDJOM5!yKPVz9mqCPFiKEkyKFtVFGpkKw6AScFh6LPy4XCWnPh7pnCWoPPOXLTDYZVZcOG1Ts6XqC6hOCN9tYv",
        "",
    ),
    ("nats", "seed ", "SU|ABULP4QPYCTQ5OWKA26MNYUBVGQNEJ6HNLLYHXT6T4JCPXK7GDFUZW6V", ""),
    ("django", "settings has ", "django-|insecure-99hmd#(l#20v%s&z#hjv&p@n!z6e#mjl=3*addiia=6t", ""),
    ("telegram", "https://api.telegram.org/bot", "784398|9371:AAy5S3vGPO6VMkO-W23pbNTL56MhfaAXlrA", "/sendMessage"),
    ("bitcoin", "wif ", "L4S4njGH98JE6FM1XXQGkGzSzab|BferxTeVqhbYeE8QRdMd5xoHm", ""),
    ("header", "curl -H 'CB-ACCESS-SIGN: ", "zdcJMJ3PxlQHwxDR9AOiWJzCy|L307xsrlJcJVdEgKaPpn6ORv", "'"),
    ("session", "open it with PHPSESSID=", "qnsrn|rhn1809zi9cv500dqpakx", ""),
    ("identity-number", "her social security number is ", "332-3|2-9378", ""),
    ("labelled", "codecov token ", "3db906b1-5047-4477-af5d-|1a991885dcb1", " works"),
    ("labelled", "azure openai key is ", "3ec1c0f58971ffd5|dd70da707de97319", ""),
    ("labelled", "API \u5bc6\u94a5\u662f ", "MNIil9l17grc5Qi|T3OoGeQG4szXbJMZv", ""),
    ("table", "user,password\njane,", "sCHI0EL5|o68svIXFWhb", "\nx"),
    ("told-login", "root login is root:", "copper-zephyr|-dahlia75", ""),
    ("told-password", "the vpn password is ", "XCCOBb!|CeltIx~", ""),
    ("told-password", "the password is ", "LpHUu0Fl#m,|PuwjO5,tD", ", keep it"),
    ("told-password", '{"\u5bc6\u7801": "', "4Nj87q!|xz0EEO~", '"}'),
    ("assignment", "AKEYLESS_ACCESS_KEY=", "p-jxii|u9geb1ymzh", ""),
    ("assignment", "SSHPASS=", "Bramb|le3897*", ""),
    ("assignment", "[r]\npass = ", "k_A1zsBAetBPfrS|6FG-fiPY4Hzgtoya5", ""),
    ("assignment", "go run . -password ", "Rocke|t5172$", ""),
    ("assignment", "password: ", "aEJxSl$h|brdEB!", ""),
    ("named", 'const API_SECRET: &str = "', "7aIaONyB5KtzYHtzih|nJGEniT8kDBU6ZMVAT8twH", '";'),
    ("named", '<add key="DbPassword" value="', "Vel|vet54_", '" />'),
    ("assignment", "storePassword=", "gpRFzT,w3,XE|ikE#9a6bqtS", ""),
    ("assignment", "travis_token: ", "walnut-rocket|-meadow42", ""),
    ("authorization", "curl -H 'Authorization: token ", "Orbit|9399$", "'"),
    ("told-password", "mongo admin password ", "kestrel-velvet-or|bit43", ""),
    ("told-password", "mongo admin password ", "ew4y0AFW)Y|UD!Fuf", ""),
    ("told-password", "redis auth is ", "copper-zephyr-|dahlia18", ""),
    ("variable", "\nWIF=", "KDxnPfdaFo3qtcd8|ZhIjOySqLHk8EVTG", ""),
    ("variable", "docker run -e MIMA=", "Drag|on6319!", ""),
    ("drawn", '{"bedrock": "', "O4tYfXlaux7-OP9zw|WlLbke5L65TKvN9VDHhWk6o", '"}'),
    ("drawn", "sweep ", "qozvgDFbZq0GcW2W6e|edhcf4FPvth9a", " into cold storage"),
    ("drawn", "the api key for the bot of ours: ", "VwHVf49SIj7k5bFRr|riRHtoJiWmClWMJ", ""),
    ("drawn", "echo ", "vSfnnJG0OrdqLJE4oXO|chQawlvTslE", " | wg set wg0"),
    ("kubernetes-secret", "# kind: Secret\n# data:\n#   dsn: ", "dn5WYktyIWVm|UGR6VXgyN3Fk", ""),
]

NEGATIVES = [
    f"commit {HEX40}",
    f"git show {HEX40[:12]} and {HEX40}",
    "session 5f0c9d1e-7c1b-4a55-9d7e-0a1b2c3d4e5f started",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "the image is data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4",
    "token = getToken()",
    "token = await client.fetch_token(scope)",
    "const token = useAuthTokenProvider2();",
    "password: string",
    "password: str | None = None",
    "password = getpass.getpass()",
    "password = config.database.password",
    "self.password = password",
    "username, password = url_user_password",
    'password: "<YOUR_PASSWORD>"',
    "token=<YOUR_TOKEN>",
    "TOKEN=${GITHUB_TOKEN}",
    "api_key = os.environ['OPENAI_API_KEY']",
    "api_key: $OPENAI_API_KEY",
    "API_KEY=your-api-key-here",
    "password=xxxxxxxxxxxx",
    "password=************",
    'secret: "changeme"',
    "secretKeyRef: shop-database-credentials",
    "token_url: https://auth.example.org/oauth2/token/v2/9f8e7d6c",
    "max_tokens: 4096, temperature: 0.2",
    "tokens: 15320 of 200000",
    "the tokenizer = AutoTokenizer.from_pretrained('bert-base-uncased-v2')",
    "primary_key: customer_order_2024_id",
    "public_key=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A",
    "Authorization: Bearer <token>",
    "Authorization: Bearer ${TOKEN}",
    "a bearer of bad news never sleeps well at night",
    "postgres://user:password@localhost/db",
    "https://example.org:8080/path@2",
    "git@github.com:owner/repository.git",
    "the class sk-loading-spinner-container stays",
    "risk-assessment-for-the-second-quarter-of-2026",
    "the key is in the drawer: look there",
    "press any key: then go on with abcdef1234567890abcdef",
    "PWD=/home/dev/shop/api/v2",
    "if line == '-----BEGIN PRIVATE KEY-----': parse(line)",
    "see AKIA prefixes, AIza prefixes and ghp_ prefixes",
    "the password reset token expires after 24 hours",
    "password_hash_algorithm: argon2id-v19-m65536",
    "idempotency_key: order-2024-0001-created",
    'File "/usr/lib/python3.11/site-packages/token_store.py", line 20, in read_secret',
    "uses: actions/checkout@8ade135a41bc03ea155e62e844d188df1ea18608",
    "integrity sha512-q8V1rR0Zk1mV2nX3cB4vN5mA6sD7fG8hJ9kL0pO1iU2yT3rE4wQ5==",
    "aws dynamodb list-tables --starting-token abQz9dFGhiJ4lmxOPq2STu6wxY8ZaB",
    '"LockToken": "447e55ac-2396-4c6d-b9f9-86b67c17f8b5"',
    '"encryptionKey": "arn:aws:kms:us-west-2:417498243647:key/c9fe2447-0795-4fda-afbe-8464574ae162"',
    '"passphrase": "AB1C2defGHijkLMNo3PqQRstUvwxyzaBCDEfghh4ijklMN5opqrStuVWxyz"',
    '"AppServerPrivateKey": "a123b45c6d78e9f012a34cd5e6a7890b12c3d45e6f78a1b2"',
    '"Password": "generatedwebdavpassword1"',
    "#define CKO_SECRET_KEY 0x00000004UL",
    'LS32_PAT = "(?:{hex}:{hex}|{ipv4})".format(hex=HEX_PAT)',
    "let pwd = a:dict.istemp ? 1 : 0",
    '"tokenExpiry": 1, "token": "2022-03-16T03:45:09+00:00"',
    "play.rust-lang.org/?code=0x01+//+QNaN%0A0x02+//+Positive+Zero%0A0x04",
    "{radio:!0,checkbox:!0,password:!0,image:!0}",
    "ssn : 111-22-3333",
    "apt\tpasswd\t1:4.13+dfsg1-1+deb12u1\napt\tpython3-lib2to3\t3.11.2-3",
    "session_id=9667a07f-c677-4f9d-9b21-da366e5add6a",
    "private_key = base64.b64encode(out).decode('ascii')",
    "password = uuid.uuid4().hex",
    "token = binascii.a2b_hex(utf8(cookie))",
    '"password": "\\u30d1\\u30b9\\u30ef\\u30fc\\u30c9"',
    '"password": "Wachtwoord", "token": "\u0422\u043e\u043a\u0435\u043d"',
    "if self.update_password == 'always':",
    "socks_pass => 's3cr3t'",
    "mysql+pymysql://keystone:keystone@localhost/keystone",
    "fake://guest:devstack@127.0.0.1:9999/",
    "URL in the form (http|https|ftp)://[user[:pass]]@host.domain[:port]/path",
    'token: "https://nid.naver.com/oauth2.0/token"',
    "docker run -p 1337:1337 --link my-mongo:mongo -d parse-server",
    '"V1SecretList", "V1SecretProjection"',
    "expectedPasswd := `root:x:0:0:root:/root:/bin/ash`",
    "'access_key': '2001:db8::9abc'",
    '"accessToken": "dGhpcyBpcyBub3QgYSByZWFsIHZhbHVl"',
    "Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
    "mojo cpanify -u USER -p PASS MyApp-0.01.tar.gz",
    "'oauth_token': 'sdf0o9823sjdfsdf'",
    "'ConsoleAuthToken': '1.3-64803f4ab6b1bf92af587bbf21793390'",
    '"TLSv1.1": ssl.TLSVersion.TLSv1_1, "spec": "V1alpha3PodGroupSpec"',
    "  Sec-WebSocket-Accept: SWsp5N2iNxPbHlcOTIw8ERvyVPY=",
    "Issuer Public Key: MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAExuICYRP4dnK97fm6OucvaQ4s",
    "the request id is rl1HYb0cUEiHPc7zgB4KWWUAA7Of today",
]


def redact(text: str) -> tuple[str, Counter[str]]:
    counts: Counter[str] = Counter()
    return REDACTOR.redact(text, counts), counts


@pytest.mark.parametrize(("rule", "before", "secret", "after"), POSITIVES)
def test_a_secret_goes_and_what_stands_around_it_stays(rule: str, before: str, secret: str, after: str) -> None:
    before, secret = before.replace("|", ""), secret.replace("|", "")
    clean, counts = redact(f"so {before}{secret}{after} end")
    assert clean == f"so {before}[REDACTED:{rule}]{after} end"
    assert counts == {rule: 1}


@pytest.mark.parametrize("text", NEGATIVES)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert redact(text) == (text, Counter())


def test_the_tables_are_as_long_as_promised() -> None:
    assert len(POSITIVES) >= 30
    assert len(NEGATIVES) >= 30


def test_redacting_twice_changes_nothing_more() -> None:
    once, _ = redact("\n".join(f"{before}{secret}{after}" for _, before, secret, after in POSITIVES).replace("|", ""))
    assert redact(once) == (once, Counter())


def test_a_key_block_goes_whole_with_line_numbers_and_escapes() -> None:
    pem = PEM.replace("|", "")
    numbered = "\n".join(f"{n:6d}\t{line}" for n, line in enumerate(pem.splitlines(), 1))
    for text in (pem.replace("\n", "\\n"), numbered, pem.rsplit("\n", 1)[0]):
        clean, counts = redact(f"before {text}")
        assert "MIIEpA" not in clean
        assert "OmLqIdHw" not in clean
        assert counts == {"private-key": 1}


@pytest.mark.parametrize(
    ("text", "clean", "counts"),
    [
        (
            "| user | password |\n|---|---|\n| jane | sCHI0EL5o68svIXFWhb |\n| joe | Rocket5172$ |\n\nthat | was | it",
            "| user | password |\n|---|---|\n| jane | [REDACTED:table] |\n| joe | [REDACTED:table] |\n\nthat | was | it",
            {"table": 2},
        ),
        (
            f"AK{'IAC2HPBPDD6WWKAHA2'} / x9SMnINKzoC1iCf15e37KRrQ13Huh9SjulYHc/5q",
            "[REDACTED:aws-access-key] / [REDACTED:aws-secret-key]",
            {"aws-access-key": 1, "aws-secret-key": 1},
        ),
        (
            "recovery_codes:\nkntsg-2xxko\nhczvf-petqw\nzqtz2-rss3g\nq4t2p-g9tic\np3aty-zlv81\n",
            "recovery_codes:\n" + "[REDACTED:recovery-codes]\n" * 5,
            {"recovery-codes": 5},
        ),
        (
            "a=ghp_16C7e42F292c6912E7710c838347Ae178B4a b=ghp_26C7e42F292c6912E7710c838347Ae178B4a",
            "a=[REDACTED:github] b=[REDACTED:github]",
            {"github": 2},
        ),
        (
            "İİİİ password='hunter2!' İ DB_PASSWORD=correcthorse",
            "İİİİ password='[REDACTED:assignment]' İ DB_PASSWORD=[REDACTED:assignment]",
            {"assignment": 2},
        ),
        ("word " * 700, "word " * 700, {}),
    ],
    ids=["table", "secret behind a key", "codes without a digit", "two", "letters that grow in lower case", "no seed phrase"],
)
def test_several_secrets_of_one_text_go_and_are_counted(text: str, clean: str, counts: dict[str, int]) -> None:
    assert redact(text) == (clean, Counter(counts))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <private>b</private> c", "a  c"),
        ("a <PRIVATE>b\nb</Private> c <private>d</private>", "a  c "),
        ("a <private>b and no end", "a "),
        ("a private matter < 3", "a private matter < 3"),
    ],
)
def test_private_spans_go(text: str, left: str) -> None:
    assert strip_private(text) == left


@pytest.mark.usefixtures("processes")
def test_the_detectors_are_imported_on_the_first_hit_only() -> None:
    script = (
        "import sys; from collections import Counter; from memory_mcp.redact.redact import Redactor; r = Redactor();"
        "r.redact('plain words and a token = getToken() /usr/lib/python3.11/site-packages', Counter());"
        "r.redact('msg.name_of_an_attribute sk7f8a9b0c1d2e3f4a5b6c7d8e9f0a1b2c3', Counter());"
        "assert not any(m.startswith('detect_secrets') for m in sys.modules);"
        "r.redact('S' + 'K7f8a9b0c1d2e3f4a5b6c7d8e9f0a1b2c3', Counter());"
        "assert 'detect_secrets.plugins.twilio' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


PROSE = "the parser reads each line and gives events to the log while the deriver cuts segments of thirty minutes " * 6


def test_texts_without_hits_pass_with_few_calls() -> None:
    """Sixteen were counted: an anchor's pattern is tried only where its plain text stands."""
    redact(PROSE[:600])
    assert calls(lambda: redact(PROSE[:600])) <= 25


def test_long_encoded_data_calls_few_rules() -> None:
    """337 were counted; where the vendors' prefixes are looked for inside of words too, a dozen rules read it all: 1,214."""
    data = base64.b64encode(random.Random(7).randbytes(300_000)).decode()
    assert redact(data) == (data, Counter())
    assert calls(lambda: redact(data)) <= 500


@pytest.mark.parametrize(
    ("before", "secret"),
    [
        ("x", "gh|p_16C7e42F292c6912E7710c838347Ae178B4a"),
        ("a\\n", "gh|p_16C7e42F292c6912E7710c838347Ae178B4a"),
        ("a\\n", "np|m_8fK2mZ9qLw7Rt4Yx1Bv6Nc3Hd5Js0PgTuEi8"),
        ("a\\t", "h|f_qWeRtYuIoPaSdFgHjKlZxCvBnM12345678"),
        ("/", "sk|_live_4eC39HqLyjWDarjtT1zdp7dc"),
        ("https://a.example/", "np|m_8fK2mZ9qLw7Rt4Yx1Bv6Nc3Hd5Js0PgTuEi8"),
        ("_", "AK|IAZ7QK3MNVT5RWXY2P"),
    ],
)
def test_a_token_is_found_behind_signs_escapes_and_some_letters(before: str, secret: str) -> None:
    clean, counts = redact(f"{before}{secret.replace('|', '')} end")
    assert clean.startswith(f"{before}[REDACTED:")
    assert clean.endswith("] end")
    assert counts.total() == 1


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "unit",
    [
        "a", "A", "aB3+", "key", "key=", "token: ", "password=", "secret secret ", "eyJ", "eyJhbGciOi.",
        "://", "://a:", "https://a:b",
        "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n", "sk-", "ghp_", "glagent-", "xoxb-1-", "AKIA", "Bearer ",
        "--token ", "<private>", "<", '"', "'", "\\n", "AccountKey=", "1234567890:", "MMMM", ".abcdef.", "aws key ",
        "Private-Lines: 1\n",
        "docker login ", "mysql -p", "cookie: a=b; ", "password is ", "machine a login b password ", "codes 1234-5678 ", "4",
        "data:\n a: b\nkind: secret\n", "abandon ", "-----END PRIVATE KEY-----\n", "AbCd\n-----END PRIVATE KEY-----\n", "$1$a$",
        "api_key" + " " * 50, "authorization: ", "SG.", " -u a:", "A_KEY=aB3dE5fG7hJ9kL1mN3pQ5 ", "use aB3dE5fG7hJ9kL1mN3pQ5rS7 ",
    ],
)  # fmt: skip
@pytest.mark.few(4)
def test_time_grows_with_the_text_only(unit: str) -> None:
    """Half a megabyte of anything takes no time to speak of; where the time is quadratic, it does not end."""
    redact(strip_private(unit * (500_000 // len(unit))))


@pytest.mark.parametrize("unit", ["aGVsbG8gd29ybGQ", "words and more words "])
@pytest.mark.few(1)
def test_four_megabytes_are_redacted_to_their_end(unit: str) -> None:
    redact(unit * (4_000_000 // len(unit)))
