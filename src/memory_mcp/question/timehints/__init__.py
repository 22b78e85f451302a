"""Find the window of time that a question names: "what broke last week" is a week and "what broke". Pure.

Invariants
1. Exact rather than broad: what may be an ordinary word (may, march, a bare 2025) is no time without a word that says so.
2. Whole words only, never across punctuation; paths, versions and what stands in double quotes or backticks mean nothing.
3. The first phrase of the question wins, the longest where two languages read one; words that turn it round (not,
   except, by, next, ...) leave it unread.
4. Windows are made of local days, but for parts of a day, clock times and counts of hours, minutes and seconds. "The last
   N days" is whole days, so nothing of N x 24 hours is cut; "the last N hours" is to the millisecond.
5. A length of time (took 3 hours, within 200 ms, in 2 minutes) is no time.
6. Chinese and Japanese are read by patterns of their own, French "hier" only beside another French word (it is German too).
7. Reading takes time linear in the text, and ends where a text has shown itself to be no question.
"""

from memory_mcp.question.timehints.find import TimeHint, find_time

__all__ = ["TimeHint", "find_time"]
