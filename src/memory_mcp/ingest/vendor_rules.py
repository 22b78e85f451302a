"""Rules for tokens known by their own form: a vendor's prefix and an alphabet.

The patterns of detect-secrets are used where their time is linear, and loaded when an anchor of theirs is met; the
table adds vendors and newer forms they do not know. Left to rules of our own, because theirs can take quadratic time or
stop in the middle of a token: JWTs, basic authentication, keywords, OpenAI, npm, GitLab, Cloudant, IBM and SoftLayer.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from memory_mcp.ingest.secret_rules import BEGIN, PatternRule, Rule, Span, plain_start

_WORD = "A-Za-z0-9_-"

#: Rule, anchors, pattern behind BEGIN. A token ends where its alphabet does, so that none is replaced by half.
_TOKENS: tuple[tuple[str, str, str], ...] = (
    ("anthropic", "sk-ant-", rf"sk-ant-[{_WORD}]{{16,}}+"),
    ("openai", "sk-proj- sk-svcacct- sk-admin-", rf"sk-(?:proj|svcacct|admin)-[{_WORD}]{{16,}}+"),
    ("openrouter", "sk-or-", rf"sk-or-[{_WORD}]{{20,}}+"),
    ("openai", "~sk-[a-z0-9]{20}", r"sk-(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{20,}+(?![_-])"),
    ("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,}+"),
    ("github", "~ghs_[0-9]{4}", rf"ghs_\d{{4,12}}_eyJ[{_WORD}]{{8,}}+(?:\.[{_WORD}]+){{1,2}}"),
    ("github", "github_pat_", r"github_pat_[A-Za-z0-9_]{30,}+"),
    (
        "gitlab",
        "~gl[a-z]{2,5}-[a-z0-9_-]{16}",
        rf"gl(?:pat|dt|ft|ffct|soat|rt|rtr|ptt|imt|agent|oas|cbt|wt)-[{_WORD}]{{16,}}+(?:\.[{_WORD}]+){{0,3}}",
    ),
    ("gitlab", "gr1348941", rf"GR1348941[{_WORD}]{{20,}}+"),
    ("aws-access-key", "akia asia abia acca a3t", r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[0-9A-Z]{16}(?![A-Za-z0-9])"),
    ("google", "aiza", rf"AIza[{_WORD}]{{35}}(?![{_WORD}])"),
    ("google", "~aq\\.[a-z0-9_-]{40}", rf"AQ\.(?=[A-Za-z_-]{{0,40}}\d)[{_WORD}]{{40,}}+"),
    ("google", "gocspx-", rf"GOCSPX-[{_WORD}]{{20,}}+"),
    ("google", "ya29.", rf"ya29\.[{_WORD}]{{20,}}+"),
    ("google", "1//0", rf"1//0[{_WORD}]{{30,}}+"),
    ("slack", "xox", r"xox[a-z](?:\.xox[a-z])?-(?=[A-Za-z-]{0,40}\d)[A-Za-z0-9-]{10,}+"),
    ("slack", "xapp-", r"xapp-\d-[A-Za-z0-9-]{10,}+"),
    ("slack", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_+-]{16,}+"),
    ("stripe", "sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_ rk_prod_", r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}+"),
    ("stripe", "whsec_", r"whsec_[A-Za-z0-9+/=]{20,}+"),
    ("npm", "npm_", r"npm_[A-Za-z0-9]{30,}+"),
    ("pypi", "pypi-", rf"pypi-[{_WORD}]{{40,}}+"),
    ("huggingface", "hf_", r"hf_[A-Za-z0-9]{30,}+"),
    ("huggingface", "api_org_", r"api_org_[A-Za-z0-9]{30,}+"),
    ("azure", "accountkey= sharedaccesskey=", r"(?:Account|SharedAccess)Key=[A-Za-z0-9+/]{40,}+={0,2}"),
    ("azure", "sig=", r"sig=[A-Za-z0-9_%+/-]{40,}+={0,2}"),
    ("azure", "~~(?<=8q~)", r"[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}"),
    ("sendgrid", r"~sg\.[a-z0-9_-]{16}", rf"SG\.[{_WORD}]{{16,64}}\.[{_WORD}]{{16,}}+"),
    ("mailgun", "~key-[0-9a-f]{32}", r"key-[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("telegram", ":aa", rf"\d{{8,10}}:AA[{_WORD}]{{33}}(?![{_WORD}])"),
    ("discord", "/webhooks/", rf"discord(?:app)?\.com/api/webhooks/\d{{15,}}/[{_WORD}]{{30,}}+"),
    ("digitalocean", "doo_v1_ dop_v1_ dor_v1_", r"do[opr]_v1_[0-9a-f]{32,}+"),
    ("databricks", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?(?![0-9A-Za-z])"),
    ("linear", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}+"),
    ("figma", "figd_", rf"figd_[{_WORD}]{{30,}}+"),
    ("memory-mcp", "mmk_", r"mmk_[0-9]{1,18}_[0-9a-f]{16}_[0-9a-f]{64}"),
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
    ("age", "age-secret-key-", r"AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{40,}+"),
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
    ("bedrock", "~absk[a-z0-9+/]{100}", r"ABSK[A-Za-z0-9+/]{100,}+={0,2}"),
    ("firebase", ":apa91b", rf"AAAA[{_WORD}]{{7}}:APA91b[{_WORD}]{{100,}}+"),
    ("azure-devops", "~[a-z0-9]{76}azdo[a-z0-9]{4}", r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}(?![A-Za-z0-9])"),
    ("alibaba", "~ltai[a-z0-9]{16}", r"LTAI(?=[A-Za-z]{0,20}\d)[A-Za-z0-9]{16,24}(?![A-Za-z0-9])"),
    ("tencent", "~akid[a-z0-9]{32}", r"AKID(?=[A-Za-z]{0,32}\d)[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("yandex", "~aqvn[a-z0-9_-]{35}", rf"AQVN[{_WORD}]{{35,38}}(?![{_WORD}])"),
    ("discord", r"~\.[a-z0-9_-]{6}\.[a-z0-9_-]{27}", rf"[MNO][A-Za-z0-9_-]{{23,27}}\.[{_WORD}]{{6}}\.[{_WORD}]{{27,}}+"),
    ("teams", "webhook.office.com", rf"webhook\.office\.com/webhookb2/[@{_WORD}]{{30,}}+(?:/[{_WORD}]+){{0,4}}"),
    ("gitlab", "glptt-", r"glptt-[0-9a-f]{40}"),
    ("mailgun", "~-[0-9a-f]{8}-", r"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![0-9A-Za-z-])"),
    ("brevo", "xkeysib-", r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("resend", "~re_[a-z0-9]{8}_[a-z0-9]{20}", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}+"),
    ("square", "~eaaa[a-z0-9_-]{58}", rf"(?<![+/])EAAA(?=[A-Za-z_-]{{0,50}}\d)[{_WORD}]{{58,62}}(?![+/{_WORD}])"),
    ("square", "sq0atp- sq0csp- sq0idp-", rf"sq0(?:atp|csp|idp)-[{_WORD}]{{22,}}+"),
    (
        "plaid",
        "access-production- access-development- access-sandbox-",
        r"access-(?:production|development|sandbox)-[0-9a-f-]{36}(?![0-9A-Za-z])",
    ),
    ("flutterwave", "flwseck", r"FLWSECK(?:_TEST)?-[0-9a-zA-Z]{12,}+(?:-X)?"),
    ("mollie", "~_[a-z0-9]{30}", r"live_(?=[A-Za-z]{0,30}\d)[A-Za-z0-9]{30}(?![A-Za-z0-9])"),
    ("easypost", "~ez[at]k[a-z0-9]{54}", r"EZ[AT]K[A-Za-z0-9]{54}"),
    ("shippo", "shippo_", r"shippo_(?:live|test)_[0-9a-f]{40}"),
    ("nuget", "~oy2[a-z0-9]{43}", r"oy2(?=[a-z]{0,30}\d)[a-z0-9]{43}(?![A-Za-z0-9])"),
    ("cargo", "~cio[a-z0-9]{32}", r"cio(?=[A-Za-z]{0,31}\d)[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("clojars", "clojars_", r"CLOJARS_[0-9a-f]{60}"),
    ("artifactory", "~akc[a-z0-9]{10}", r"AKC[A-Za-z0-9]{60,73}(?![A-Za-z0-9])"),
    ("artifactory", "cmvmdgtu", r"cmVmdGtu[A-Za-z0-9]{50,}+"),
    ("circleci", "ccipat_ cciprj_", r"CCIP(?:AT|RJ)_[A-Za-z0-9]{16,}_[0-9a-f]{40}"),
    ("buildkite", "bkua_ bkct_ bkaj_", r"bk(?:ua|ct|aj)_[A-Za-z0-9]{36,}+"),
    ("sonar", "sqp_ squ_ sqa_", r"sq[pua]_[0-9a-f]{40}(?![0-9A-Za-z])"),
    ("octopus", "~api-[a-z0-9]{25}", r"API-(?=[A-Z]{0,25}\d)[A-Z0-9]{25,32}(?![A-Za-z0-9])"),
    ("harness", r"~pat\.[a-z0-9_-]{22}\. ~sat\.[a-z0-9_-]{22}\.", rf"[ps]at\.[{_WORD}]{{22}}\.[0-9a-f]{{24}}\.[A-Za-z0-9]{{20}}"),
    ("infisical", r"~st\.[0-9a-f]{24}", r"st\.[0-9a-f]{24}\.[0-9a-f]{32}\.[0-9a-f]{32}"),
    ("1password", "ops_eyj", rf"ops_eyJ[{_WORD}]{{100,}}+={{0,2}}"),
    ("1password", "~a3-[a-z0-9]{6}-", r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),
    (
        "bitwarden",
        "~0\\.[0-9a-f]{8}-[0-9a-f]{4}-",
        r"0\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[A-Za-z0-9]{30}:[A-Za-z0-9+/=]{20,}+",
    ),
    ("heroku", "hrku-", rf"HRKU-[{_WORD}]{{30,}}+"),
    ("render", "rnd_", r"rnd_[A-Za-z0-9]{26,}+"),
    ("cloudflare", "v1.0-", r"v1\.0-[0-9a-f]{24}-?[0-9a-f]{146}"),
    ("cloudflare", "cfut_ cfat_ cfk_", r"cf(?:ut|at|k)_[A-Za-z0-9]{40,}+"),
    ("together", "tgp_v1_", rf"tgp_v1_[{_WORD}]{{36,}}+"),
    ("google", "~goog[a-z0-9]{20}", r"GOOG(?=[A-Z]{0,40}\d)[A-Z0-9]{20}(?:[A-Z0-9]{37})?(?![A-Za-z0-9])"),
    ("instagram", "~igqv[a-z0-9]", r"IGQV[A-Za-z0-9_-]{60,}+"),
    ("yandex", "~t1\\.[a-z0-9_-]{7}", rf"t1\.[{_WORD}]{{7,}}={{0,2}}\.[{_WORD}]{{86}}={{0,2}}"),
    ("aws-mws", "amzn.mws.", r"amzn\.mws\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("nats", "~s[uaocnx][a-z2-7]{56}", r"S[UAOCNX](?=[A-Z]{0,54}[2-7])[A-Z2-7]{56}(?![A-Za-z0-9])"),
    ("django", "django-insecure-", r"django-insecure-[^\s\"'`]{30,}+"),
    ("elevenlabs", "~_[a-z0-9]{30}", r"sk_[0-9a-f]{48}(?![0-9A-Za-z])"),
    ("pinecone", "pcsk_", r"pcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{50,}+"),
    ("langfuse", "sk-lf-", r"sk-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("neon", "napi_", r"napi_[a-z0-9]{60,}+"),
    ("mongodb", "mdb_sa_sk_", rf"mdb_sa_sk_[{_WORD}]{{36,}}+"),
    ("new-relic", "~[0-9a-f]{36}nral", r"[0-9a-f]{36}NRAL(?![0-9A-Za-z])"),
    ("honeycomb", "~_[a-z0-9]{30}", r"hca[a-z]{2}_[a-z0-9]{58}(?![0-9A-Za-z])"),
    ("dynatrace", r"~dt0[a-z][0-9]{2}\.", r"dt0[a-z]\d{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("launchdarkly", "~-[0-9a-f]{8}-", r"(?:sdk|api|mob)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("notion", "~_[a-z0-9]{30}", r"secret_(?=[A-Za-z]{0,42}\d)[A-Za-z0-9]{43}(?![A-Za-z0-9])"),
    ("dropbox", "~sl\\.[a-z0-9_.-]{130}", rf"sl\.(?:u\.)?[{_WORD}]{{130,}}+"),
    ("contentful", "cfpat-", rf"CFPAT-[{_WORD}]{{43}}"),
    ("typeform", "tfp_", rf"tfp_[{_WORD}]{{40,}}+"),
    ("hubspot", "~-[0-9a-f]{8}-", r"pat-(?:na|eu|ap)\d-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("mapbox", "sk.eyj", rf"sk\.eyJ[{_WORD}]{{40,}}\.[{_WORD}]{{20,}}+"),
    ("facebook", "~eaa[a-z0-9]{100}", r"(?<![+/])EAA(?=[A-Za-z]{0,50}\d)[A-Za-z0-9]{100,}+(?![+/=])"),
    ("twitter", "aaaaaaaaaaaaaaaaaaaaa", r"(?<![+/])A{21,23}(?=[A-Za-z%]{0,60}\d)[A-Za-z0-9%]{60,}+(?![+/])"),
    ("prefect", "~_[a-z0-9]{30}", r"pn[ub]_(?=[A-Za-z]{0,35}\d)[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    ("readme", "rdme_", r"rdme_[a-z0-9]{70}"),
    ("slack", "xoxd-", r"xoxd-[A-Za-z0-9%+/=_-]{20,}+"),
    ("cursor", "crsr_", r"crsr_[0-9a-f]{40,}+"),
    ("cursor", "~key_[0-9a-f]{60}", r"key_[0-9a-f]{60,}+"),
    ("fireworks", "~fw_[a-z0-9]{22}", r"fw_(?=[A-Za-z]{0,21}\d)[A-Za-z0-9]{22,}+"),
    ("helicone", "sk-helicone-", r"sk-helicone-(?:[a-z]{2}-)?[a-z0-9]{7}(?:-[a-z0-9]{7}){2}-[a-z0-9]{7,}+"),
    ("wandb", "wandb_v1_", rf"wandb_v1_[{_WORD}]{{40,}}+"),
    ("browserbase", "bb_live_ bb_test_", rf"bb_(?:live|test)_[{_WORD}]{{20,}}+"),
    ("daytona", "~dtn_[0-9a-f]{40}", r"dtn_[0-9a-f]{40,}+"),
    ("matrix", "~syt_[a-z0-9_-]{20}", r"(?:syt|syr)_[A-Za-z0-9+/=-]{2,80}_[A-Za-z]{20}_[A-Za-z0-9]{6}"),
    ("bedrock", "bedrock-api-key-", r"bedrock-api-key-[A-Za-z0-9+/]{60,}+={0,2}"),
    ("jsr", "~jsr[pd]_[a-z0-9]{40}", r"jsr[pd]_[A-Za-z0-9]{40,}+"),
    ("datadog", "ddapp_ ddapi_", r"ddap[pi]_[A-Za-z0-9]{30,}+"),
    ("cerebras", "csk-", r"csk-[a-z0-9]{40,}+"),
    ("nvidia", "nvapi-", rf"nvapi-[{_WORD}]{{40,}}+"),
    ("jina", "jina_", rf"jina_[{_WORD}]{{40,}}+"),
    ("voyage", "~pa-[a-z0-9_-]{40}", rf"pa-(?=[A-Za-z_-]{{0,40}}\d)(?=[a-z0-9_-]{{0,40}}[A-Z])[{_WORD}]{{40,}}+"),
    ("firecrawl", "~fc-[0-9a-f]{32}", r"fc-[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("e2b", "e2b_", r"e2b_[0-9a-f]{40}"),
    ("apify", "apify_", r"apify_(?:api|proxy)_[A-Za-z0-9]{30,}+"),
    ("dify", "~app-[a-z0-9]{24}", r"app-(?=[A-Za-z]{0,23}\d)(?=[a-z0-9]{0,23}[A-Z])[A-Za-z0-9]{24}(?![A-Za-z0-9-])"),
    ("mem0", "~m0-[a-z0-9]{40}", r"m0-[A-Za-z0-9]{40}(?![A-Za-z0-9])"),
    ("trigger.dev", "tr_dev_ tr_prod_ tr_stg_ tr_pat_", r"tr_(?:dev|prod|stg|pat)_[A-Za-z0-9]{20,}+"),
    ("inngest", "signkey-", r"signkey-[a-z]+-[0-9a-f]{32,}+"),
    ("axiom", "~-[0-9a-f]{8}-", r"xa(?:at|pt)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("vercel", "~vc[pciark]_[a-z0-9]{24}", r"vc[pciark]_(?=[A-Za-z]{0,56}\d)[A-Za-z0-9]{24,}+"),
    ("maxmind", "~_(?=mmk)", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    ("paddle", "pdl_live_ pdl_sdbx_ pdl_ntfset_", r"pdl_(?:live|sdbx|ntfset)_[A-Za-z0-9_/+]{30,}+"),
    ("razorpay", "rzp_live_ rzp_test_", r"rzp_(?:live|test)_[A-Za-z0-9]{14,}+"),
    ("mercadopago", "app_usr-", r"APP_USR-[0-9a-f-]{30,}+"),
    ("xendit", "xnd_production_ xnd_development_", r"xnd_(?:production|development)_[A-Za-z0-9]{30,}+"),
    ("midtrans", "mid-server-", rf"(?:SB-)?Mid-server-[{_WORD}]{{20,}}+"),
    ("lob", "~_[a-z0-9]{30}", r"(?:live|test)_(?:pub_)?[0-9a-f]{31,35}(?![A-Za-z0-9])"),
    ("gocardless", "~live_[a-z0-9_-]{40}", rf"live_(?=[A-Za-z_-]{{0,40}}\d)[{_WORD}]{{40}}(?![{_WORD}])"),
    ("stytch", "secret-live- secret-test-", r"secret-(?:live|test)-[A-Za-z0-9_=-]{30,}+"),
    ("polar", "polar_", r"polar_[a-z]{2,4}_[A-Za-z0-9]{30,}+"),
    ("frame.io", "fio-u-", rf"fio-u-[{_WORD}]{{40,}}+"),
    ("infracost", "~ico-[a-z0-9]{32}", r"ico-(?=[A-Za-z]{0,31}\d)[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("adafruit", "~aio_[a-z0-9]{28}", r"aio_[A-Za-z0-9]{28}(?![A-Za-z0-9])"),
    ("duffel", "duffel_live_ duffel_test_", rf"duffel_(?:live|test)_[{_WORD}]{{40,}}+"),
    ("wakatime", "~waka_[0-9a-z]{6,8}-", r"waka_[0-9a-z]{6,8}-[0-9a-f-]{27,}+"),
    ("sourcegraph", "sgp_ slk_", r"(?:sgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}|slk_[0-9a-f]{64})"),
    ("clickup", "~pk_[0-9]{6,9}_[a-z0-9]{32}", r"pk_\d{6,9}_[A-Z0-9]{32}"),
    ("telnyx", "~key0[0-9a-z]{30}", r"KEY0[0-9A-Z]{28,34}_[A-Za-z0-9]{20,}+"),
    ("pubnub", "sec-c-", r"sec-c-[A-Za-z0-9=+/-]{30,}+"),
    ("asana", "~1/[0-9]{15} ~2/[0-9]{15}", r"[12]/\d{15,17}(?:/\d{10,17})?:[0-9a-f]{32}"),
    ("atlassian", "atatt3 atctt3", r"AT[AC]TT3[A-Za-z0-9_=+/-]{24,}+"),
    ("scalingo", "tk-us-", rf"tk-us-[{_WORD}]{{40,}}+"),
    ("defined", "dnkey-", rf"dnkey-[={_WORD}]{{60,}}+"),
    ("intra42", "s-s4t2", r"s-s4t2(?:ud|af)-[0-9a-f]{64}"),
    ("openshift", "sha256~", rf"sha256~[{_WORD}]{{43}}"),
    ("clickhouse", "~4b1d[a-z0-9]{38}", r"4b1d(?=[a-z0-9]{0,30}[A-Z])[A-Za-z0-9]{38}(?![A-Za-z0-9])"),
    ("settlemint", "sm_aat_ sm_pat_ sm_sat_", r"sm_[aps]at_[A-Za-z0-9]{16,}+"),
    ("nightfall", "~nf-[a-z0-9]{32}", r"NF-[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("databento", "~db-[a-z0-9]{29}", r"db-(?=[a-z0-9]{0,28}[A-Z])(?=[A-Za-z]{0,28}\d)[A-Za-z0-9]{29}(?![A-Za-z0-9])"),
    ("ably", "~\\.[a-z0-9_-]{6}:[a-z0-9_-]{43}", rf"[{_WORD}]{{6}}\.[{_WORD}]{{6}}:[{_WORD}]{{43}}(?![{_WORD}])"),
    ("elastic", "essu_", r"essu_[A-Za-z0-9+/=]{40,}+"),
    ("new-relic", "nrii- nrra- nriq- nrjs-", rf"NR(?:II|RA|IQ|JS)-[{_WORD}]{{19,}}+"),
    ("slack", "xoxe", r"xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9-]{20,}+"),
    ("zapier", "hooks.zapier.com", r"hooks\.zapier\.com/hooks/catch/\d+/[A-Za-z0-9/]{5,}+"),
    ("ifttt", "maker.ifttt.com", rf"maker\.ifttt\.com/trigger/[{_WORD}]{{1,64}}/(?:json/)?with/key/[{_WORD}]{{16,}}+"),
    ("make", r"~\.(?=make\.com/)", r"hook\.[a-z0-9.]{2,12}\.make\.com/[a-z0-9]{20,}+"),
    ("feishu", "open.feishu.cn open.larksuite.com", r"open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/[0-9a-f-]{20,}+"),
    ("dingtalk", "oapi.dingtalk.com", r"oapi\.dingtalk\.com/robot/send\?access_token=[0-9a-f]{40,}+"),
    ("wecom", "qyapi.weixin.qq.com", r"qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=[0-9a-f-]{30,}+"),
    (
        "bitcoin",
        "~xprv[a-z0-9]{100} ~yprv[a-z0-9]{100} ~zprv[a-z0-9]{100}",
        r"[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,112}(?![A-Za-z0-9])",
    ),
)

#: Detectors of detect-secrets: module, class, rule, anchors, and whether a token grows over its whole run of characters
#: (a vendor's prefix is unmistakable) or must stand alone (its form also occurs inside other data).
_DETECTORS: tuple[tuple[str, str, str, str, bool], ...] = (
    ("artifactory", "ArtifactoryDetector", "artifactory", "~akc[a-z0-9]{10}", False),
    ("azure_storage_key", "AzureStorageKeyDetector", "azure", "~=(?<=accountkey=)", True),
    ("discord", "DiscordBotTokenDetector", "discord", r"~\.[a-z0-9_-]{6}\.[a-z0-9_-]{27}", False),
    ("github_token", "GitHubTokenDetector", "github", "~_(?<=gh[pousr]_)", True),
    ("mailchimp", "MailchimpDetector", "mailchimp", "~-us[0-9]", False),
    ("pypi_token", "PypiTokenDetector", "pypi", "~-age(?<=pypi-age)", True),
    ("sendgrid", "SendGridDetector", "sendgrid", r"~\.(?<=sg\.)[a-z0-9_-]{16}", True),
    ("slack", "SlackDetector", "slack", "~-(?<=xox[a-z]-) hooks.slack.com", True),
    ("square_oauth", "SquareOAuthDetector", "square", "~-(?<=sq0csp-)", True),
    ("stripe", "StripeDetector", "stripe", "~_live_(?<=k_live_)", True),
    ("telegram_token", "TelegramBotTokenDetector", "telegram", ":aa", False),
    ("twilio", "TwilioKeyDetector", "twilio", "~(?:ac|sk)[0-9a-z]{32}", False),
)
_RUN = re.compile(f"[{_WORD}]*+")
_ESCAPED = ("\\n", "\\r", "\\t")


@dataclass(frozen=True, slots=True)
class TokenRule:
    """A vendor's token, tried where its literal prefix is found."""

    name: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    heads: tuple[re.Pattern[str], ...]

    def find(self, text: str, lowered: str) -> Iterator[Span]:
        """Yield tokens that begin at the vendor's prefix; examples filled with x are none."""
        done = 0
        for start in sorted({place.start() for head in self.heads for place in head.finditer(lowered)}):
            if start >= done and (match := self.pattern.match(text, start)):
                done = match.end()
                if "xxxx" not in lowered[start:done]:
                    yield Span(start, done, self.name)


@dataclass(frozen=True, slots=True)
class DetectorRule:
    """The patterns of one detector of detect-secrets."""

    name: str
    anchors: tuple[str, ...]
    module: str
    detector: str
    grows: bool

    def find(self, text: str, _lowered: str) -> Iterator[Span]:
        """Yield the matches of a detector, either grown over their run of characters or only where they stand alone."""
        for pattern in _patterns(self.module, self.detector):
            done = 0
            for match in pattern.finditer(text):
                group = pattern.groups if pattern.groups and match[pattern.groups] and not self.grows else 0
                start, end = match.span(group)
                # A letter or digit is next to it, but not that of an escaped line feed, return or tab before it.
                inside = text[end : end + 1].isalnum() or (
                    text[start - 1 : start].isalnum() and text[max(0, start - 2) : start] not in _ESCAPED
                )
                if start < done or (inside and not self.grows):
                    continue
                if self.grows and (rest := _RUN.match(text, end)):
                    end = rest.end()
                done = end
                yield Span(start, end, self.name)


@cache
def _patterns(module: str, detector: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a detector of detect-secrets."""
    # Imported on the first hit only: it brings an HTTP client with it and takes a third of a second.
    found = getattr(import_module(f"detect_secrets.plugins.{module}"), detector)
    return tuple(found.denylist)


def _token_rule(name: str, anchors: tuple[str, ...], pattern: re.Pattern[str]) -> Rule:
    """Return the rule for a vendor's token: by its prefix, or by its whole pattern where an anchor is inside the token."""
    heads = {plain_start(anchor) for anchor in anchors}
    # An anchor that begins with a sign, or with a choice, stands inside the token.
    if not all(head[:1].isalnum() for head in heads):
        return PatternRule(name, anchors, pattern)
    return TokenRule(name, anchors, pattern, tuple(re.compile(re.escape(head)) for head in sorted(heads)))


VENDOR_RULES: tuple[Rule, ...] = (
    *(_token_rule(name, tuple(anchors.split()), re.compile(BEGIN + pattern)) for name, anchors, pattern in _TOKENS),
    *(
        DetectorRule(name, tuple(anchors.split()), module, detector, grows)
        for module, detector, name, anchors, grows in _DETECTORS
    ),
)
