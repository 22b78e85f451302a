"""What a text goes through before it is embedded: names of code become the words they are made of."""

import re

# A word starts at a capital after a small letter (getValue), and at the last of several before small ones (HTTPServer).
# Names that are one word to everybody stay so: asked for in small letters, they must be the same word.
_START = re.compile(
    r"""[A-Z](?:
    (?<=[a-z0-9].)(?!
        (?<=GitH)ub|(?<=GitL)ab|(?<=JavaS|TypeS)cript|(?<=MyS|NoS)QL|(?<=PostgreS)QL|(?<=GraphQ)L|(?<=MongoD)B|(?<=OpenA)I
        |(?<=PyT)orch|(?<=NumP|SciP)y|(?<=YouT)ube|(?<=LinkedI)n|(?<=TikT)ok|(?<=WhatsA)pp|(?<=iP)hone|(?<=iO|cO)S\b
    )
    |(?<=[A-Z].)(?=[a-z]{2})
    )""",
    re.X,
)


def split_identifiers(text: str) -> str:
    """`getHTTPValue of user_id` becomes `get HTTP Value of user id`.

    The embedding model folds case and knows words: without this a name in camel case is one word that it has never met.
    Paths, dots and dashes are cut by its tokenizer. Some 3 us for 170 characters.
    """
    return _START.sub(r" \g<0>", text.replace("_", " "))
