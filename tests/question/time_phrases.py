"""Phrases and the windows they mean, and words that mean none.

Written from the calendar. Windows are local times, `from .. up to`; a date alone is its midnight, `ever` the beginning
of time, `now` the moment of asking with its own millisecond.

How what can be read in two ways is read
- "N hours ago", "N minutes ago": give or take a quarter of N; as one end of a range, that instant.
- A clock time is as long as its last digit says: 14:00 a minute, 3pm and noon an hour; "around" is an hour to both sides.
- Beginning, middle and end are thirds: of a year four months each, of a quarter one month each, of a month up to the 10th
  and the 20th, of a week up to Tuesday and Thursday. Halves part a year in two times six months, a month behind the 15th.
- "Two weeks before a date" is the whole week, "two months before" the whole month, as with "ago"; "the week before a date" is
  the seven days up to it, "two days before" that one day.
- The first week of a period is its first seven days, the last week its last seven.
- Seasons are the northern hemisphere's, of whole months from March, June, September and December; a winter has the
  year that it begins in.
- A date with slashes is read when only one order of day and month is possible (25/12/2025), or the year comes first.
"""

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
#: A Friday afternoon in winter, the last working day of January.
FRIDAY = "2026-01-30T15:00"

PHRASES = """
today                                       | 2026-01-30 .. 2026-01-31
today's                                     | 2026-01-30 .. 2026-01-31
TODAY                                       | 2026-01-30 .. 2026-01-31
tonight                                     | 2026-01-30T18:00 .. 2026-01-31T06:00
this morning                                | 2026-01-30T05:00 .. 2026-01-30T12:00
last night                                  | 2026-01-29T18:00 .. 2026-01-30T06:00
yesterday                                   | 2026-01-29 .. 2026-01-30
yesterday morning                           | 2026-01-29T05:00 .. 2026-01-29T12:00
yesterday afternoon                         | 2026-01-29T12:00 .. 2026-01-29T18:00
yesterday evening                           | 2026-01-29T18:00 .. 2026-01-30
the day before yesterday                    | 2026-01-28 .. 2026-01-29
yesterday and today                         | 2026-01-29 .. 2026-01-31
this week                                   | 2026-01-26 .. 2026-02-02
last week                                   | 2026-01-19 .. 2026-01-26
last  week's                                | 2026-01-19 .. 2026-01-26
previous week                               | 2026-01-19 .. 2026-01-26
the week before last                        | 2026-01-12 .. 2026-01-19
last week and this week                     | 2026-01-19 .. 2026-02-02
this month                                  | 2026-01-01 .. 2026-02-01
last month                                  | 2025-12-01 .. 2026-01-01
the previous month                          | 2025-12-01 .. 2026-01-01
the month before last                       | 2025-11-01 .. 2025-12-01
this year                                   | 2026-01-01 .. 2027-01-01
last year                                   | 2025-01-01 .. 2026-01-01
the year before last                        | 2024-01-01 .. 2025-01-01
the year before last year                   | 2024-01-01 .. 2025-01-01
1 day ago                                   | 2026-01-29 .. 2026-01-30
3 days ago                                  | 2026-01-27 .. 2026-01-28
30 days ago                                 | 2025-12-31 .. 2026-01-01
a couple of days ago                        | 2026-01-28 .. 2026-01-29
a few days ago                              | 2026-01-27 .. 2026-01-28
a week ago                                  | 2026-01-19 .. 2026-01-26
two weeks ago                               | 2026-01-12 .. 2026-01-19
a couple weeks ago                          | 2026-01-12 .. 2026-01-19
a month ago                                 | 2025-12-01 .. 2026-01-01
twelve months ago                           | 2025-01-01 .. 2025-02-01
13 months ago                               | 2024-12-01 .. 2025-01-01
three years ago                             | 2023-01-01 .. 2024-01-01
in the last 3 days                          | 2026-01-27 .. 2026-01-31
over the past two weeks                     | 2026-01-16 .. 2026-01-31
last 12 months                              | 2025-01-30 .. 2026-01-31
in the last two months                      | 2025-11-30 .. 2026-01-31
within the last couple of weeks             | 2026-01-16 .. 2026-01-31
the last few months                         | 2025-10-30 .. 2026-01-31
in the last day                             | 2026-01-29 .. 2026-01-31
in the last week                            | 2026-01-23 .. 2026-01-31
the past month                              | 2025-12-30 .. 2026-01-31
during the past year                        | 2025-01-30 .. 2026-01-31
on Tuesday                                  | 2026-01-27 .. 2026-01-28
on tuesday morning                          | 2026-01-27T05:00 .. 2026-01-27T12:00
on Friday                                   | 2026-01-23 .. 2026-01-24
on Saturday                                 | 2026-01-24 .. 2026-01-25
last Tuesday                                | 2026-01-27 .. 2026-01-28
last Friday                                 | 2026-01-23 .. 2026-01-24
last Friday, January 16                     | 2026-01-16 .. 2026-01-17
this past Thursday                          | 2026-01-29 .. 2026-01-30
this Monday                                 | 2026-01-26 .. 2026-01-27
this Friday                                 | 2026-01-30 .. 2026-01-31
Thursday evening                            | 2026-01-29T18:00 .. 2026-01-30
Monday's                                    | 2026-01-26 .. 2026-01-27
on Monday and Tuesday                       | 2026-01-26 .. 2026-01-28
in January                                  | 2026-01-01 .. 2026-02-01
in february                                 | 2025-02-01 .. 2025-03-01
during March                                | 2025-03-01 .. 2025-04-01
in May                                      | 2025-05-01 .. 2025-06-01
in may                                      | 2025-05-01 .. 2025-06-01
in Dec                                      | 2025-12-01 .. 2026-01-01
in January and December                     | 2025-12-01 .. 2026-02-01
last March                                  | 2025-03-01 .. 2025-04-01
last January                                | 2025-01-01 .. 2025-02-01
last May                                    | 2025-05-01 .. 2025-06-01
March of last year                          | 2025-03-01 .. 2025-04-01
January 2026                                | 2026-01-01 .. 2026-02-01
in Dec 2025                                 | 2025-12-01 .. 2026-01-01
May 2025                                    | 2025-05-01 .. 2025-06-01
may 2025                                    | 2025-05-01 .. 2025-06-01
in early May                                | 2025-05-01 .. 2025-05-11
mid-January                                 | 2026-01-11 .. 2026-01-21
late February 2024                          | 2024-02-21 .. 2024-03-01
Q3 2025                                     | 2025-07-01 .. 2025-10-01
2025 Q4                                     | 2025-10-01 .. 2026-01-01
2025-Q1                                     | 2025-01-01 .. 2025-04-01
in Q3                                       | 2025-07-01 .. 2025-10-01
in 2025                                     | 2025-01-01 .. 2026-01-01
of 2024                                     | 2024-01-01 .. 2025-01-01
from 2025                                   | 2025-01-01 .. 2026-01-01
in 2024 and 2025                            | 2024-01-01 .. 2026-01-01
2026-01-15                                  | 2026-01-15 .. 2026-01-16
2024-02-29                                  | 2024-02-29 .. 2024-03-01
2026-01                                     | 2026-01-01 .. 2026-02-01
2025-12                                     | 2025-12-01 .. 2026-01-01
2026-W04                                    | 2026-01-19 .. 2026-01-26
2026-W01                                    | 2025-12-29 .. 2026-01-05
2020-w53                                    | 2020-12-28 .. 2021-01-04
30 January 2026                             | 2026-01-30 .. 2026-01-31
Jan 30                                      | 2026-01-30 .. 2026-01-31
jan 31                                      | 2025-01-31 .. 2025-02-01
30 Jan                                      | 2026-01-30 .. 2026-01-31
January 30th, 2026                          | 2026-01-30 .. 2026-01-31
the 3rd of December                         | 2025-12-03 .. 2025-12-04
Sept 5 2025                                 | 2025-09-05 .. 2025-09-06
May 3                                       | 2025-05-03 .. 2025-05-04
on may 3                                    | 2025-05-03 .. 2025-05-04
Feb 29                                      | 2024-02-29 .. 2024-03-01
Tuesday, 27 January 2026                    | 2026-01-27 .. 2026-01-28
January 3-5                                 | 2026-01-03 .. 2026-01-06
from 3 to 5 January 2025                    | 2025-01-03 .. 2025-01-06
between the 3rd and the 5th of January      | 2026-01-03 .. 2026-01-06
since yesterday                             | 2026-01-29 .. 2026-01-31
since Tuesday                               | 2026-01-27 .. 2026-01-31
since last week                             | 2026-01-19 .. 2026-01-31
since March                                 | 2025-03-01 .. 2026-01-31
since May                                   | 2025-05-01 .. 2026-01-31
since 2026-01-15                            | 2026-01-15 .. 2026-01-31
since 2024                                  | 2024-01-01 .. 2026-01-31
since two weeks ago                         | 2026-01-12 .. 2026-01-31
after January 15                            | 2026-01-16 .. 2026-01-31
before 2026-01-15                           | ever .. 2026-01-15
before January 15th                         | ever .. 2026-01-15
prior to 2025                               | ever .. 2025-01-01
before yesterday                            | ever .. 2026-01-29
until 2026-01-15                            | ever .. 2026-01-16
until March 2025                            | ever .. 2025-04-01
up to last week                             | ever .. 2026-01-26
between January 5 and January 9             | 2026-01-05 .. 2026-01-10
between 2025-12-30 and 2026-01-02           | 2025-12-30 .. 2026-01-03
between last week and this week             | 2026-01-19 .. 2026-02-02
between January and March 2025              | 2025-01-01 .. 2025-04-01
between November and January                | 2025-11-01 .. 2026-02-01
between 2024 and 2025                       | 2024-01-01 .. 2026-01-01
from Monday to Wednesday                    | 2026-01-26 .. 2026-01-29
from Friday to Monday                       | 2026-01-23 .. 2026-01-27
from May to July                            | 2025-05-01 .. 2025-08-01
from Q1 to Q3 2025                          | 2025-01-01 .. 2025-10-01
from 30 Dec to today                        | 2025-12-30 .. 2026-01-31
since Monday until Wednesday                | 2026-01-26 .. 2026-01-29
January - March 2025                        | 2025-01-01 .. 2025-04-01
2026-01-01..2026-01-05                      | 2026-01-01 .. 2026-01-06
2026-01-01 to yesterday                     | 2026-01-01 .. 2026-01-30
2 hours ago                                 | 2026-01-30T12:30 .. 2026-01-30T13:30
an hour ago                                 | 2026-01-30T13:45 .. 2026-01-30T14:15
a couple of hours ago                       | 2026-01-30T12:30 .. 2026-01-30T13:30
8 hours ago                                 | 2026-01-30T05:00 .. 2026-01-30T09:00
24 hours ago                                | 2026-01-29T09:00 .. 2026-01-29T21:00
20 minutes ago                              | 2026-01-30T14:35 .. 2026-01-30T14:45
60 seconds ago                              | 2026-01-30T14:58:45 .. 2026-01-30T14:59:15
in the last 2 hours                         | 2026-01-30T13:00 .. now
in the last hour                            | 2026-01-30T14:00 .. now
last hour                                   | 2026-01-30T14:00 .. now
the past 30 minutes                         | 2026-01-30T14:30 .. now
over the last 24 hours                      | 2026-01-29T15:00 .. now
within the last 48h                         | 2026-01-28T15:00 .. now
in the last few hours                       | 2026-01-30T12:00 .. now
last 7d                                     | 2026-01-23 .. 2026-01-31
in the last 90 days                         | 2025-11-01 .. 2026-01-31
since 2 hours ago                           | 2026-01-30T13:00 .. 2026-01-31
between 3 hours ago and 1 hour ago          | 2026-01-30T12:00 .. 2026-01-30T14:00
a fortnight ago                             | 2026-01-12 .. 2026-01-19
in the last fortnight                       | 2026-01-16 .. 2026-01-31
five days ago                               | 2026-01-25 .. 2026-01-26
10 weeks ago                                | 2025-11-17 .. 2025-11-24
six months ago                              | 2025-07-01 .. 2025-08-01
2026-01-30T14:00                            | 2026-01-30T14:00 .. 2026-01-30T14:01
2026-01-30 14:00                            | 2026-01-30T14:00 .. 2026-01-30T14:01
2026-01-30t14:00:30                         | 2026-01-30T14:00:30 .. 2026-01-30T14:00:31
2026-01-30T14:00Z                           | 2026-01-30T15:00 .. 2026-01-30T15:01
2026-01-30T10:00:00Z                        | 2026-01-30T11:00:00 .. 2026-01-30T11:00:01
2026-01-30T10:00:00.250Z                    | 2026-01-30T11:00:00 .. 2026-01-30T11:00:01
2026-01-30T14:00+05:30                      | 2026-01-30T09:30 .. 2026-01-30T09:31
2026-01-30T14:00-0500                       | 2026-01-30T20:00 .. 2026-01-30T20:01
since 2026-01-30T14:00                      | 2026-01-30T14:00 .. 2026-01-31
before 2026-01-30T14:00                     | ever .. 2026-01-30T14:00
until 2026-01-29T18:30                      | ever .. 2026-01-29T18:30
after 2026-01-29T18:30                      | 2026-01-29T18:30 .. 2026-01-31
between 2026-01-30T09:00 and 2026-01-30T11:30 | 2026-01-30T09:00 .. 2026-01-30T11:30
from 2026-01-29T22:00 to 2026-01-30T02:00   | 2026-01-29T22:00 .. 2026-01-30T02:00
2026-01-30T09:00/2026-01-30T11:00           | 2026-01-30T09:00 .. 2026-01-30T11:00
between 2026-01-15T08:00Z and yesterday     | 2026-01-15T09:00 .. 2026-01-30
2026-01-05/2026-01-09                       | 2026-01-05 .. 2026-01-10
2026-W04-2                                  | 2026-01-20 .. 2026-01-21
2026/01/15                                  | 2026-01-15 .. 2026-01-16
25/12/2025                                  | 2025-12-25 .. 2025-12-26
12/25/2025                                  | 2025-12-25 .. 2025-12-26
15.01.2026                                  | 2026-01-15 .. 2026-01-16
3.5.2025                                    | 2025-05-03 .. 2025-05-04
week 3 of 2026                              | 2026-01-12 .. 2026-01-19
in week 53 of 2020                          | 2020-12-28 .. 2021-01-04
in week 3                                   | 2026-01-12 .. 2026-01-19
in week 42                                  | 2025-10-13 .. 2025-10-20
since week 3                                | 2026-01-12 .. 2026-01-31
calendar week 42                            | 2025-10-13 .. 2025-10-20
in Woche 42                                 | 2025-10-13 .. 2025-10-20
Kalenderwoche 42                            | 2025-10-13 .. 2025-10-20
en la semana 42                             | 2025-10-13 .. 2025-10-20
yesterday at 14:00                          | 2026-01-29T14:00 .. 2026-01-29T14:01
yesterday at 3pm                            | 2026-01-29T15:00 .. 2026-01-29T16:00
on Tuesday at 9:30                          | 2026-01-27T09:30 .. 2026-01-27T09:31
last Monday at 12 am                        | 2026-01-26T00:00 .. 2026-01-26T01:00
today at noon                               | 2026-01-30T12:00 .. 2026-01-30T13:00
at noon yesterday                           | 2026-01-29T12:00 .. 2026-01-29T13:00
around noon yesterday                       | 2026-01-29T11:00 .. 2026-01-29T13:00
yesterday around noon                       | 2026-01-29T11:00 .. 2026-01-29T13:00
around 3pm yesterday                        | 2026-01-29T14:00 .. 2026-01-29T16:00
since yesterday at 14:00                    | 2026-01-29T14:00 .. 2026-01-31
since 9am                                   | 2026-01-30T09:00 .. 2026-01-31
since noon                                  | 2026-01-30T12:00 .. 2026-01-31
since 18:00                                 | 2026-01-29T18:00 .. 2026-01-31
last weekend                                | 2026-01-24 .. 2026-01-26
over the weekend                            | 2026-01-24 .. 2026-01-26
at the weekend                              | 2026-01-24 .. 2026-01-26
before the weekend                          | ever .. 2026-01-24
since the weekend                           | 2026-01-24 .. 2026-01-31
since last weekend                          | 2026-01-24 .. 2026-01-31
this weekend                                | 2026-01-31 .. 2026-02-02
last quarter                                | 2025-10-01 .. 2026-01-01
this quarter                                | 2026-01-01 .. 2026-04-01
two quarters ago                            | 2025-07-01 .. 2025-10-01
the quarter before last                     | 2025-07-01 .. 2025-10-01
in the last two quarters                    | 2025-07-30 .. 2026-01-31
in Q4                                       | 2025-10-01 .. 2026-01-01
since Q4                                    | 2025-10-01 .. 2026-01-31
Q3 of last year                             | 2025-07-01 .. 2025-10-01
between Q1 and Q3 2025                      | 2025-01-01 .. 2025-10-01
the third quarter of 2025                   | 2025-07-01 .. 2025-10-01
the last quarter of 2024                    | 2024-10-01 .. 2025-01-01
the first half of 2025                      | 2025-01-01 .. 2025-07-01
H2 2025                                     | 2025-07-01 .. 2026-01-01
the second half of January                  | 2026-01-16 .. 2026-02-01
the first week of March                     | 2025-03-01 .. 2025-03-08
first week of March 2024                    | 2024-03-01 .. 2024-03-08
the last week of January                    | 2026-01-25 .. 2026-02-01
in the second week of December              | 2025-12-08 .. 2025-12-15
the first week of 2026                      | 2026-01-01 .. 2026-01-08
the last day of last month                  | 2025-12-31 .. 2026-01-01
the first Monday of January                 | 2026-01-05 .. 2026-01-06
the last Friday of December                 | 2025-12-26 .. 2025-12-27
end of last month                           | 2025-12-21 .. 2026-01-01
at the end of January                       | 2026-01-21 .. 2026-02-01
the middle of December                      | 2025-12-11 .. 2025-12-21
beginning of 2025                           | 2025-01-01 .. 2025-05-01
early 2025                                  | 2025-01-01 .. 2025-05-01
mid-2025                                    | 2025-05-01 .. 2025-09-01
late 2024                                   | 2024-09-01 .. 2025-01-01
early last year                             | 2025-01-01 .. 2025-05-01
the end of Q3 2025                          | 2025-09-01 .. 2025-10-01
end of last week                            | 2026-01-23 .. 2026-01-26
early this week                             | 2026-01-26 .. 2026-01-28
since the start of the year                 | 2026-01-01 .. 2026-01-31
since the beginning of this month           | 2026-01-01 .. 2026-01-31
until the end of December                   | ever .. 2026-01-01
before the end of December                  | ever .. 2025-12-31
spring 2025                                 | 2025-03-01 .. 2025-06-01
summer 2025                                 | 2025-06-01 .. 2025-09-01
in the summer of 2024                       | 2024-06-01 .. 2024-09-01
autumn of 2025                              | 2025-09-01 .. 2025-12-01
fall 2024                                   | 2024-09-01 .. 2024-12-01
winter 2024                                 | 2024-12-01 .. 2025-03-01
last summer                                 | 2025-06-01 .. 2025-09-01
last fall                                   | 2025-09-01 .. 2025-12-01
last winter                                 | 2024-12-01 .. 2025-03-01
this winter                                 | 2025-12-01 .. 2026-03-01
in summer                                   | 2025-06-01 .. 2025-09-01
since summer                                | 2025-06-01 .. 2026-01-31
on the 3rd                                  | 2026-01-03 .. 2026-01-04
on the 31st                                 | 2025-12-31 .. 2026-01-01
since the 15th                              | 2026-01-15 .. 2026-01-31
on Tuesday last week                        | 2026-01-20 .. 2026-01-21
on Tuesday of last week                     | 2026-01-20 .. 2026-01-21
Wednesday this week                         | 2026-01-28 .. 2026-01-29
on Friday two weeks ago                     | 2026-01-16 .. 2026-01-17
the Monday before last                      | 2026-01-19 .. 2026-01-20
the night before last                       | 2026-01-28T18:00 .. 2026-01-29T06:00
last Tuesday evening                        | 2026-01-27T18:00 .. 2026-01-28
earlier today                               | 2026-01-30 .. 2026-01-31
earlier this week                           | 2026-01-26 .. 2026-02-02
the week of January 15                      | 2026-01-12 .. 2026-01-19
week of May 5                               | 2025-05-05 .. 2025-05-12
between 9am and 11am yesterday              | 2026-01-29T09:00 .. 2026-01-29T11:00
from 9:30 to noon on Tuesday                | 2026-01-27T09:30 .. 2026-01-27T12:00
since last Friday                           | 2026-01-23 .. 2026-01-31
since May 3                                 | 2025-05-03 .. 2026-01-31
since 3 May 2024                            | 2024-05-03 .. 2026-01-31
between last Tuesday and yesterday          | 2026-01-27 .. 2026-01-30
between Monday and Wednesday                | 2026-01-26 .. 2026-01-29
between Friday and Sunday                   | 2026-01-23 .. 2026-01-26
between May 3 and yesterday                 | 2025-05-03 .. 2026-01-30
between 2025-12-15 and last week            | 2025-12-15 .. 2026-01-26
between 2025-11 and January                 | 2025-11-01 .. 2026-02-01
between March and last week                 | 2025-03-01 .. 2026-01-26
between yesterday and today                 | 2026-01-29 .. 2026-01-31
between two weeks ago and last Friday       | 2026-01-12 .. 2026-01-24
from last Monday to last Wednesday          | 2026-01-26 .. 2026-01-29
the Saturday after October 28, 2023         | 2023-11-04 .. 2023-11-05
the first Saturday after October 28, 2023   | 2023-11-04 .. 2023-11-05
the second Sunday after 5 June 2023         | 2023-06-18 .. 2023-06-19
the Monday before May 5, 2024               | 2024-04-29 .. 2024-04-30
the Friday following 3 March 2025           | 2025-03-07 .. 2025-03-08
the Friday after last Monday                | 2026-01-30 .. 2026-01-31
the week after October 28, 2023             | 2023-10-29 .. 2023-11-05
the week before 5 June 2023                 | 2023-05-29 .. 2023-06-05
the week before last week                   | 2026-01-12 .. 2026-01-19
the weekend after October 28, 2023          | 2023-11-04 .. 2023-11-06
the weekend before 4 July 2023              | 2023-07-01 .. 2023-07-03
the weekend of October 28, 2023             | 2023-10-28 .. 2023-10-30
the day after October 28, 2023              | 2023-10-29 .. 2023-10-30
the day before May 5, 2024                  | 2024-05-04 .. 2024-05-05
two days before 5 June 2023                 | 2023-06-03 .. 2023-06-04
two days before yesterday                   | 2026-01-27 .. 2026-01-28
the two days before yesterday               | 2026-01-27 .. 2026-01-29
3 days after 5 June 2023                    | 2023-06-08 .. 2023-06-09
a week after 5 June 2023                    | 2023-06-12 .. 2023-06-19
two months before August 11, 2023           | 2023-06-01 .. 2023-07-01
two weeks before May 5, 2024                | 2024-04-15 .. 2024-04-22
since the Saturday after October 28, 2023   | 2023-11-04 .. 2026-01-31
the month after May 2023                    | 2023-06-01 .. 2023-07-01
the year before 2020                        | 2019-01-01 .. 2020-01-01
the year 2022                               | 2022-01-01 .. 2023-01-01
in the year 2022                            | 2022-01-01 .. 2023-01-01
the morning of 5 June 2023                  | 2023-06-05T05:00 .. 2023-06-05T12:00
the evening of October 28, 2023             | 2023-10-28T18:00 .. 2023-10-29
10-28-2023                                  | 2023-10-28 .. 2023-10-29
28-10-2023                                  | 2023-10-28 .. 2023-10-29
"""

AROUND = [
    # Clocks forward on Sunday 29 March 2026 (23 hours), back on Sunday 25 October (25 hours).
    (BERLIN, "2026-03-30T09:00", "yesterday", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"),
    (BERLIN, "2026-03-29T12:00", "today", "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"),
    (BERLIN, "2026-03-30T09:00", "yesterday morning", "2026-03-29T05:00+02:00", "2026-03-29T12:00+02:00"),
    (BERLIN, "2026-03-29T09:00", "last night", "2026-03-28T18:00+01:00", "2026-03-29T06:00+02:00"),
    (BERLIN, "2026-03-31T09:00", "last week", "2026-03-23T00:00+01:00", "2026-03-30T00:00+02:00"),
    (BERLIN, "2026-04-10T09:00", "in March", "2026-03-01T00:00+01:00", "2026-04-01T00:00+02:00"),
    (BERLIN, "2026-10-26T00:30", "yesterday", "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"),
    (BERLIN, "2026-10-27T09:00", "in the last 3 days", "2026-10-24T00:00+02:00", "2026-10-28T00:00+01:00"),
    (BERLIN, "2026-10-27T09:00", "on Sunday", "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"),
    # In New York on 8 March and 1 November 2026.
    (NEW_YORK, "2026-03-09T08:00", "yesterday", "2026-03-08T00:00-05:00", "2026-03-09T00:00-04:00"),
    (NEW_YORK, "2026-03-10T08:00", "since Sunday", "2026-03-08T00:00-05:00", "2026-03-11T00:00-04:00"),
    (NEW_YORK, "2026-11-02T08:00", "yesterday", "2026-11-01T00:00-04:00", "2026-11-02T00:00-05:00"),
    (NEW_YORK, "2026-11-02T08:00", "this month", "2026-11-01T00:00-04:00", "2026-12-01T00:00-05:00"),
    (NEW_YORK, "2026-11-05T08:00", "between 2026-10-31 and 2026-11-01", "2026-10-31T00:00-04:00", "2026-11-02T00:00-05:00"),
    # The turn of the year; 2025-12-31 is a Wednesday, in the first ISO week of 2026.
    (BERLIN, "2026-01-01T00:10", "yesterday", "2025-12-31T00:00+01:00", "2026-01-01T00:00+01:00"),
    (BERLIN, "2026-01-01T00:10", "this week", "2025-12-29T00:00+01:00", "2026-01-05T00:00+01:00"),
    (BERLIN, "2026-01-01T00:10", "last month", "2025-12-01T00:00+01:00", "2026-01-01T00:00+01:00"),
    (BERLIN, "2026-01-01T00:10", "in December", "2025-12-01T00:00+01:00", "2026-01-01T00:00+01:00"),
    (BERLIN, "2026-01-01T00:10", "in January", "2026-01-01T00:00+01:00", "2026-02-01T00:00+01:00"),
    (BERLIN, "2025-12-31T23:50", "in January", "2025-01-01T00:00+01:00", "2025-02-01T00:00+01:00"),
    (BERLIN, "2025-12-31T23:50", "last year", "2024-01-01T00:00+01:00", "2025-01-01T00:00+01:00"),
    (NEW_YORK, "2025-12-31T23:50", "today", "2025-12-31T00:00-05:00", "2026-01-01T00:00-05:00"),
    (NEW_YORK, "2026-01-02T12:00", "Dec 31", "2025-12-31T00:00-05:00", "2026-01-01T00:00-05:00"),
    (NEW_YORK, "2026-01-02T12:00", "from December to today", "2025-12-01T00:00-05:00", "2026-01-03T00:00-05:00"),
    # Months of unequal length.
    (NEW_YORK, "2026-03-31T12:00", "in the last month", "2026-02-28T00:00-05:00", "2026-04-01T00:00-04:00"),
    (NEW_YORK, "2024-02-29T12:00", "in the past year", "2023-02-28T00:00-05:00", "2024-03-01T00:00-05:00"),
    # Midnight skipped by the clock: the day begins at the first instant that exists.
    ("America/Sao_Paulo", "2018-11-05T09:00", "yesterday", "2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"),
    ("America/Sao_Paulo", "2018-11-05T09:00", "the day before yesterday", "2018-11-03T00:00-03:00", "2018-11-04T01:00-02:00"),
    # An instant in the skipped hour is read with the offset before it, one in the doubled hour as the earlier of the two.
    (BERLIN, "2026-04-01T09:00", "2026-03-29T02:30", "2026-03-29T03:30+02:00", "2026-03-29T03:31+02:00"),
    (BERLIN, "2026-11-01T12:00", "2026-10-25T02:30", "2026-10-25T02:30+02:00", "2026-10-25T02:31+02:00"),
    (BERLIN, "2026-03-29T03:30", "2 hours ago", "2026-03-29T00:00+01:00", "2026-03-29T01:00+01:00"),
    (BERLIN, "2026-10-25T04:00", "in the last 3 hours", "2026-10-25T02:00+02:00", "2026-10-25T04:00:00.001+01:00"),
    (BERLIN, "2026-03-30T09:00", "yesterday at 14:00", "2026-03-29T14:00+02:00", "2026-03-29T14:01+02:00"),
    (BERLIN, "2026-03-30T09:00", "last weekend", "2026-03-28T00:00+01:00", "2026-03-30T00:00+02:00"),
    (BERLIN, "2026-04-10T09:00", "end of last month", "2026-03-21T00:00+01:00", "2026-04-01T00:00+02:00"),
    (BERLIN, "2025-03-31T09:00", "on the 30th", "2025-03-30T00:00+01:00", "2025-03-31T00:00+02:00"),
    (NEW_YORK, "2026-03-09T08:00", "last weekend", "2026-03-07T00:00-05:00", "2026-03-09T00:00-04:00"),
    (NEW_YORK, "2026-03-08T12:00", "in the last 24 hours", "2026-03-07T11:00-05:00", "2026-03-08T12:00:00.001-04:00"),
    (NEW_YORK, "2026-11-02T08:00", "over the weekend", "2026-10-31T00:00-04:00", "2026-11-02T00:00-05:00"),
    (NEW_YORK, "2026-11-01T12:00", "this morning", "2026-11-01T05:00-05:00", "2026-11-01T12:00-05:00"),
    (
        NEW_YORK,
        "2026-11-05T12:00",
        "between 2026-11-01T00:30 and 2026-11-01T03:30",
        "2026-11-01T00:30-04:00",
        "2026-11-01T03:30-05:00",
    ),
    # Weeks around the new year: 2026-01-02 is a Friday, 2021-01-02 a Saturday in week 53 of 2020, 2027-01-03 a Sunday.
    (BERLIN, "2026-01-02T09:00", "last week", "2025-12-22T00:00+01:00", "2025-12-29T00:00+01:00"),
    (BERLIN, "2021-01-02T09:00", "this week", "2020-12-28T00:00+01:00", "2021-01-04T00:00+01:00"),
    (BERLIN, "2021-01-04T09:00", "last week", "2020-12-28T00:00+01:00", "2021-01-04T00:00+01:00"),
    (BERLIN, "2027-01-03T09:00", "the week before last", "2026-12-14T00:00+01:00", "2026-12-21T00:00+01:00"),
    (BERLIN, "2026-01-01T12:00", "last weekend", "2025-12-27T00:00+01:00", "2025-12-29T00:00+01:00"),
    (BERLIN, "2026-01-05T09:00", "last December", "2025-12-01T00:00+01:00", "2026-01-01T00:00+01:00"),
    (BERLIN, "2026-12-31T23:59", "last December", "2025-12-01T00:00+01:00", "2026-01-01T00:00+01:00"),
    (BERLIN, "2026-01-05T09:00", "in Q4", "2025-10-01T00:00+02:00", "2026-01-01T00:00+01:00"),
    (BERLIN, "2026-01-05T09:00", "last quarter", "2025-10-01T00:00+02:00", "2026-01-01T00:00+01:00"),
    (BERLIN, "2026-12-31T23:59", "since Q4", "2026-10-01T00:00+02:00", "2027-01-01T00:00+01:00"),
    (BERLIN, "2026-01-05T09:00", "Dec 24", "2025-12-24T00:00+01:00", "2025-12-25T00:00+01:00"),
    (BERLIN, "2026-01-01T09:00", "on the 31st", "2025-12-31T00:00+01:00", "2026-01-01T00:00+01:00"),
    (BERLIN, "2025-03-15T09:00", "on the 31st", "2025-01-31T00:00+01:00", "2025-02-01T00:00+01:00"),
    (NEW_YORK, "2026-01-01T00:05", "in the last hour", "2025-12-31T23:05-05:00", "2026-01-01T00:05:00.001-05:00"),
    (BERLIN, "2024-03-01T09:00", "yesterday", "2024-02-29T00:00+01:00", "2024-03-01T00:00+01:00"),
    (BERLIN, "2026-02-01T10:00", "over the weekend", "2026-01-31T00:00+01:00", "2026-02-02T00:00+01:00"),
    (BERLIN, "2026-02-01T10:00", "last weekend", "2026-01-24T00:00+01:00", "2026-01-26T00:00+01:00"),
    # Seen from another moment: 2024-07-04 is a Thursday.
    (NEW_YORK, "2024-07-04T12:00", "last Tuesday", "2024-07-02T00:00-04:00", "2024-07-03T00:00-04:00"),
    (NEW_YORK, "2024-07-04T12:00", "in January", "2024-01-01T00:00-05:00", "2024-02-01T00:00-05:00"),
    (NEW_YORK, "2024-07-04T12:00", "since May 3", "2024-05-03T00:00-04:00", "2024-07-05T00:00-04:00"),
    (NEW_YORK, "2024-07-04T12:00", "two weeks ago", "2024-06-17T00:00-04:00", "2024-06-24T00:00-04:00"),
    (NEW_YORK, "2024-07-04T12:00", "yesterday evening", "2024-07-03T18:00-04:00", "2024-07-04T00:00-04:00"),
    (NEW_YORK, "2024-07-04T12:00", "last quarter", "2024-04-01T00:00-04:00", "2024-07-01T00:00-04:00"),
    (NEW_YORK, "2024-07-04T12:00", "this summer", "2024-06-01T00:00-04:00", "2024-09-01T00:00-04:00"),
    (NEW_YORK, "2024-07-04T12:00", "last summer", "2023-06-01T00:00-04:00", "2023-09-01T00:00-04:00"),
    (NEW_YORK, "2024-07-04T12:00", "around noon yesterday", "2024-07-03T11:00-04:00", "2024-07-03T13:00-04:00"),
    # In another zone.
    ("Asia/Kathmandu", "2026-01-30T02:00", "2026-01-29T20:00Z", "2026-01-30T01:45+05:45", "2026-01-30T01:46+05:45"),
    ("Asia/Kathmandu", "2026-01-30T02:00", "since 2026-01-29T20:00", "2026-01-29T20:00+05:45", "2026-01-31T00:00+05:45"),
    ("Pacific/Auckland", "2026-01-30T02:00", "yesterday evening", "2026-01-29T18:00+13:00", "2026-01-30T00:00+13:00"),
]

NOT_TIMES = """
it may fail
the step before may fail
the last may be wrong
it broke in the parser and may break again
it may 3 times out of 4 fail
clients MAY 2 times retry
march through the steps
dec 10 counter
the second argument
the last argument
the last commit
show the last error
the last 3 errors
the last week we used it
the week before last release
sat
sun and mon
on sat
Sun Microsystems
Monday
Monday.com
on Sundays
every Monday morning
next Tuesday
next week
fixed by Friday
now
daily and weekly
week
a week
this day
this second
last minute
January
the message from April
Python 3.11
version 2.0
API version 2024-10-21
port 2025
2025
in 2025 lines
of 2000 rows
in 2030
HTTP 404
CVE-2026-0130
v2026-01
logs/2026-01-30/build
2026-02-30
2026-13
2026-W54
1970-01-01
today.md
today()
daily_today
@yesterday
yesterday/today
0 days ago
-3 days ago
10-12 days ago
2.5 weeks ago
half a year ago
more than two weeks ago
over 3 days ago
999 years ago
within 200 ms
after today
since when
between the two
from A to B
on "Tuesday" we meant the column
`last week` as a literal
what does "yesterday" mean here
not in January
except yesterday
from 2026-01-01 onwards
last. Week of
may
march
second
sun
mon
current
the current month's
day one
the 5 minute rule
took 3 hours
it took about 2 minutes
answer in 2 minutes
answer in under a second
within 2 hours
retry after 30 seconds
after 2 hours
every 2 hours
5 minutes
hours ago
over 2 hours ago
half an hour ago
the last 5 minutes of the recording
the last minute of it
last second
this hour
2026-01-30T25:00
2026-01-30T14:00+99:00
2026-01-30T14:00..yesterday.log
logs/2026/01/30/build
at 14:00
run it at 3pm
9am standup
the 14:00 job
around noon
version 2025.1
python 3.11
9.5
1.2.2025.4
3/5/2026
31/31/2025
monthly report
yesterday.py
last_week variable
lastWeek
`yesterday` and "last week"
Christmas
since Christmas
between Christmas and New Year
on weekends
every weekend
next weekend
weekend
the weekend deploy
beans in Spring
Spring Boot
spring
it may fall in line
fall back to polling
winter
the 3rd
on the 2nd try
on the 3rd line
on the 2nd and 3rd attempts
between 2am and 4am
between 9:00 and 11:00
from 9am to 5pm
week of work
2026-01-30T14:00-16:00
after the 1st call
between the 1st and 2nd
the first week
the first week of the project
the second half
the first quarter of the file
the last quarter of the file
the end of the file
at the end
beginning of the function
end of the day
early return
early may fail
late binding
mid
week 3 of the course
in week 3 of the course
week 3
week 60
the today widget
how did we fix the today page
our yesterday button is blue
2025-W53
H1 heading
h2
quarter
the quarter
the week
error of the week
the month
the first Monday
a fortnight
the last few
the Saturday after the release
the day after the release
two days after the release
the weekend of work
the week after that
5-3-2026
"""

#: The same moments in German.
GERMAN = """
heute                                       | 2026-01-30 .. 2026-01-31
gestern                                     | 2026-01-29 .. 2026-01-30
vorgestern                                  | 2026-01-28 .. 2026-01-29
gestern Abend                               | 2026-01-29T18:00 .. 2026-01-30
heute Morgen                                | 2026-01-30T05:00 .. 2026-01-30T12:00
heute früh                                  | 2026-01-30T05:00 .. 2026-01-30T12:00
gestern Nachmittag                          | 2026-01-29T12:00 .. 2026-01-29T18:00
letzte Nacht                                | 2026-01-29T18:00 .. 2026-01-30T06:00
gestern um 14:00                            | 2026-01-29T14:00 .. 2026-01-29T14:01
gestern um 15 Uhr                           | 2026-01-29T15:00 .. 2026-01-29T16:00
diese Woche                                 | 2026-01-26 .. 2026-02-02
letzte Woche                                | 2026-01-19 .. 2026-01-26
vorige Woche                                | 2026-01-19 .. 2026-01-26
in der letzten Woche                        | 2026-01-19 .. 2026-01-26
vorletzte Woche                             | 2026-01-12 .. 2026-01-19
diesen Monat                                | 2026-01-01 .. 2026-02-01
letzten Monat                               | 2025-12-01 .. 2026-01-01
im letzten Monat                            | 2025-12-01 .. 2026-01-01
dieses Jahr                                 | 2026-01-01 .. 2027-01-01
letztes Jahr                                | 2025-01-01 .. 2026-01-01
vorletztes Jahr                             | 2024-01-01 .. 2025-01-01
letztes Quartal                             | 2025-10-01 .. 2026-01-01
letztes Wochenende                          | 2026-01-24 .. 2026-01-26
am Wochenende                               | 2026-01-24 .. 2026-01-26
vor 3 Tagen                                 | 2026-01-27 .. 2026-01-28
vor einer Woche                             | 2026-01-19 .. 2026-01-26
vor zwei Wochen                             | 2026-01-12 .. 2026-01-19
vor einem Monat                             | 2025-12-01 .. 2026-01-01
vor zwölf Monaten                           | 2025-01-01 .. 2025-02-01
vor 2 Jahren                                | 2024-01-01 .. 2025-01-01
vor zwei Stunden                            | 2026-01-30T12:30 .. 2026-01-30T13:30
vor 20 Minuten                              | 2026-01-30T14:35 .. 2026-01-30T14:45
in den letzten drei Tagen                   | 2026-01-27 .. 2026-01-31
in den letzten zwei Wochen                  | 2026-01-16 .. 2026-01-31
in den letzten 2 Stunden                    | 2026-01-30T13:00 .. now
am Dienstag                                 | 2026-01-27 .. 2026-01-28
am Dienstagabend                            | 2026-01-27T18:00 .. 2026-01-28
letzten Dienstag                            | 2026-01-27 .. 2026-01-28
am vergangenen Freitag                      | 2026-01-23 .. 2026-01-24
am Dienstag letzter Woche                   | 2026-01-20 .. 2026-01-21
seit zwei Wochen                            | 2026-01-16 .. 2026-01-31
seit Dienstag                               | 2026-01-27 .. 2026-01-31
im Januar                                   | 2026-01-01 .. 2026-02-01
im Mai                                      | 2025-05-01 .. 2025-06-01
im März 2025                                | 2025-03-01 .. 2025-04-01
März 2025                                   | 2025-03-01 .. 2025-04-01
im April 2025                               | 2025-04-01 .. 2025-05-01
im August letzten Jahres                    | 2025-08-01 .. 2025-09-01
Anfang Januar                               | 2026-01-01 .. 2026-01-11
Ende letzten Monats                         | 2025-12-21 .. 2026-01-01
Mitte 2025                                  | 2025-05-01 .. 2025-09-01
in 2025                                     | 2025-01-01 .. 2026-01-01
im Jahr 2025                                | 2025-01-01 .. 2026-01-01
Q3 2025                                     | 2025-07-01 .. 2025-10-01
im dritten Quartal 2025                     | 2025-07-01 .. 2025-10-01
im Sommer 2025                              | 2025-06-01 .. 2025-09-01
letzten Winter                              | 2024-12-01 .. 2025-03-01
KW 4                                        | 2026-01-19 .. 2026-01-26
in KW 53 2020                               | 2020-12-28 .. 2021-01-04
am 3. Mai                                   | 2025-05-03 .. 2025-05-04
am 3. Mai 2024                              | 2024-05-03 .. 2024-05-04
am 15.01.2026                               | 2026-01-15 .. 2026-01-16
am 2026-01-15                               | 2026-01-15 .. 2026-01-16
seit gestern                                | 2026-01-29 .. 2026-01-31
seit letzter Woche                          | 2026-01-19 .. 2026-01-31
seit Januar                                 | 2026-01-01 .. 2026-01-31
seit dem 3. Mai                             | 2025-05-03 .. 2026-01-31
vor dem 3. Mai                              | ever .. 2025-05-03
nach dem 15. Januar                         | 2026-01-16 .. 2026-01-31
bis gestern                                 | ever .. 2026-01-30
bis zum 3. Mai 2025                         | ever .. 2025-05-04
bis August 2025                             | ever .. 2025-09-01
vor August 2025                             | ever .. 2025-08-01
zwischen dem 3. und dem 5. Januar           | 2026-01-03 .. 2026-01-06
zwischen dem 3. Mai und dem 5. Juni 2025    | 2025-05-03 .. 2025-06-06
zwischen Januar und März 2025               | 2025-01-01 .. 2025-04-01
zwischen Montag und Mittwoch                | 2026-01-26 .. 2026-01-29
zwischen 2025-12-30 und 2026-01-02          | 2025-12-30 .. 2026-01-03
von Montag bis Mittwoch                     | 2026-01-26 .. 2026-01-29
vom 3. bis zum 5. Januar                    | 2026-01-03 .. 2026-01-06
vom 30. Dezember bis heute                  | 2025-12-30 .. 2026-01-31
am Samstag nach dem 28. Oktober 2023        | 2023-11-04 .. 2023-11-05
der Samstag nach dem 28.10.2023             | 2023-11-04 .. 2023-11-05
zwei Tage vor dem 5. Juni 2023              | 2023-06-03 .. 2023-06-04
in der Woche nach dem 3. Mai 2024           | 2024-05-04 .. 2024-05-11
am Wochenende vor dem 4. Juli 2023          | 2023-07-01 .. 2023-07-03
am Tag nach dem 3. Mai 2024                 | 2024-05-04 .. 2024-05-05
"""

GERMAN_NOT_TIMES = """
morgen
am Morgen
jeden Montag
montags
nächste Woche
nächsten Dienstag
nicht im Januar
nicht im April 2025
außer gestern
Woche
Monatsbericht
heute.py
die letzte Zeile
der letzte Fehler
die letzten 3 Zeilen
am Ende der Datei
Anfang der Funktion
vor allem
vor der Änderung
vor einem Fehler
seit wann
seit zwei Versionen
zwei Wochen
nach zwei Wochen
in 2 Minuten
innerhalb von 200 ms
dauerte 3 Stunden
alle 2 Stunden
Mai
Januar
im Sommerloch
in 2025 Zeilen
I am
the die is cast
ab test
"""

FRENCH = """
la semaine dernière                         | 2026-01-19 .. 2026-01-26
la semaine passée                           | 2026-01-19 .. 2026-01-26
cette semaine                               | 2026-01-26 .. 2026-02-02
le mois dernier                             | 2025-12-01 .. 2026-01-01
ce mois-ci                                  | 2026-01-01 .. 2026-02-01
l'année dernière                            | 2025-01-01 .. 2026-01-01
hier soir                                   | 2026-01-29T18:00 .. 2026-01-30
avant-hier                                  | 2026-01-28 .. 2026-01-29
aujourd'hui                                 | 2026-01-30 .. 2026-01-31
ce matin                                    | 2026-01-30T05:00 .. 2026-01-30T12:00
mardi dernier                               | 2026-01-27 .. 2026-01-28
mardi de la semaine dernière                | 2026-01-20 .. 2026-01-21
il y a deux semaines                        | 2026-01-12 .. 2026-01-19
il y a trois jours                          | 2026-01-27 .. 2026-01-28
ces trois derniers jours                    | 2026-01-27 .. 2026-01-31
les deux dernières semaines                 | 2026-01-16 .. 2026-01-31
en mars 2024                                | 2024-03-01 .. 2024-04-01
en mars                                     | 2025-03-01 .. 2025-04-01
au mois de mars                             | 2025-03-01 .. 2025-04-01
le 3 mai                                    | 2025-05-03 .. 2025-05-04
le 3 mai 2024                               | 2024-05-03 .. 2024-05-04
le 1er mai 2024                             | 2024-05-01 .. 2024-05-02
samedi 28 octobre 2023                      | 2023-10-28 .. 2023-10-29
le samedi après le 28 octobre 2023          | 2023-11-04 .. 2023-11-05
deux jours avant le 5 juin 2023             | 2023-06-03 .. 2023-06-04
depuis mars                                 | 2025-03-01 .. 2026-01-31
depuis lundi                                | 2026-01-26 .. 2026-01-31
depuis deux semaines                        | 2026-01-16 .. 2026-01-31
avant le 3 mai 2024                         | ever .. 2024-05-03
jusqu'au 3 mai 2024                         | ever .. 2024-05-04
entre le 3 et le 5 mai 2024                 | 2024-05-03 .. 2024-05-06
du 3 au 5 mai 2024                          | 2024-05-03 .. 2024-05-06
fin mai                                     | 2025-05-21 .. 2025-06-01
début mars 2024                             | 2024-03-01 .. 2024-03-11
l'été 2022                                  | 2022-06-01 .. 2022-09-01
l'été dernier                               | 2025-06-01 .. 2025-09-01
en 2023                                     | 2023-01-01 .. 2024-01-01
le week-end dernier                         | 2026-01-24 .. 2026-01-26
"""

SPANISH = """
la semana pasada                            | 2026-01-19 .. 2026-01-26
esta semana                                 | 2026-01-26 .. 2026-02-02
el mes pasado                               | 2025-12-01 .. 2026-01-01
este mes                                    | 2026-01-01 .. 2026-02-01
el año pasado                               | 2025-01-01 .. 2026-01-01
ayer                                        | 2026-01-29 .. 2026-01-30
ayer por la tarde                           | 2026-01-29T12:00 .. 2026-01-29T20:00
anteayer                                    | 2026-01-28 .. 2026-01-29
antes de ayer                               | 2026-01-28 .. 2026-01-29
anoche                                      | 2026-01-29T18:00 .. 2026-01-30T06:00
hoy                                         | 2026-01-30 .. 2026-01-31
el martes pasado                            | 2026-01-27 .. 2026-01-28
el martes de la semana pasada               | 2026-01-20 .. 2026-01-21
hace dos semanas                            | 2026-01-12 .. 2026-01-19
hace tres días                              | 2026-01-27 .. 2026-01-28
los últimos tres días                       | 2026-01-27 .. 2026-01-31
en marzo                                    | 2025-03-01 .. 2025-04-01
en marzo de 2024                            | 2024-03-01 .. 2024-04-01
el 3 de mayo                                | 2025-05-03 .. 2025-05-04
el 3 de mayo de 2024                        | 2024-05-03 .. 2024-05-04
el sábado 28 de octubre de 2023             | 2023-10-28 .. 2023-10-29
el sábado después del 28 de octubre de 2023 | 2023-11-04 .. 2023-11-05
dos días antes del 5 de junio de 2023       | 2023-06-03 .. 2023-06-04
desde marzo                                 | 2025-03-01 .. 2026-01-31
desde el lunes                              | 2026-01-26 .. 2026-01-31
antes del 3 de mayo de 2024                 | ever .. 2024-05-03
hasta el 3 de mayo de 2024                  | ever .. 2024-05-04
entre el 3 y el 5 de mayo de 2024           | 2024-05-03 .. 2024-05-06
del 3 al 5 de mayo de 2024                  | 2024-05-03 .. 2024-05-06
finales de mayo                             | 2025-05-21 .. 2025-06-01
en el verano de 2022                        | 2022-06-01 .. 2022-09-01
el fin de semana pasado                     | 2026-01-24 .. 2026-01-26
"""

CHINESE_AND_JAPANESE = """
2023年10月28日                                 | 2023-10-28 .. 2023-10-29
２０２３年１０月２８日                                 | 2023-10-28 .. 2023-10-29
二〇二三年十月二十八日                                 | 2023-10-28 .. 2023-10-29
10月28日                                      | 2025-10-28 .. 2025-10-29
2023-10-28                                  | 2023-10-28 .. 2023-10-29
2023年10月                                    | 2023-10-01 .. 2023-11-01
2023年                                       | 2023-01-01 .. 2024-01-01
10月                                         | 2025-10-01 .. 2025-11-01
三月份                                         | 2025-03-01 .. 2025-04-01
5月底                                         | 2025-05-21 .. 2025-06-01
10月上旬                                       | 2025-10-01 .. 2025-10-11
2022年夏天                                     | 2022-06-01 .. 2022-09-01
去年夏天                                        | 2025-06-01 .. 2025-09-01
去年の夏                                        | 2025-06-01 .. 2025-09-01
去年                                          | 2025-01-01 .. 2026-01-01
今年                                          | 2026-01-01 .. 2027-01-01
一昨年                                         | 2024-01-01 .. 2025-01-01
上周                                          | 2026-01-19 .. 2026-01-26
上週                                          | 2026-01-19 .. 2026-01-26
这周                                          | 2026-01-26 .. 2026-02-02
本周                                          | 2026-01-26 .. 2026-02-02
今週                                          | 2026-01-26 .. 2026-02-02
先週                                          | 2026-01-19 .. 2026-01-26
上上周                                         | 2026-01-12 .. 2026-01-19
先々週                                         | 2026-01-12 .. 2026-01-19
上周六                                         | 2026-01-24 .. 2026-01-25
上个星期三                                       | 2026-01-21 .. 2026-01-22
先週の土曜日                                      | 2026-01-24 .. 2026-01-25
上周末                                         | 2026-01-24 .. 2026-01-26
先週末                                         | 2026-01-24 .. 2026-01-26
上个月                                         | 2025-12-01 .. 2026-01-01
这个月                                         | 2026-01-01 .. 2026-02-01
先月                                          | 2025-12-01 .. 2026-01-01
昨天                                          | 2026-01-29 .. 2026-01-30
昨日                                          | 2026-01-29 .. 2026-01-30
昨天晚上                                        | 2026-01-29T18:00 .. 2026-01-30
昨日の夜                                        | 2026-01-29T18:00 .. 2026-01-30
前天                                          | 2026-01-28 .. 2026-01-29
一昨日                                         | 2026-01-28 .. 2026-01-29
今天                                          | 2026-01-30 .. 2026-01-31
今日                                          | 2026-01-30 .. 2026-01-31
3天前                                         | 2026-01-27 .. 2026-01-28
三天前                                         | 2026-01-27 .. 2026-01-28
两周前                                         | 2026-01-12 .. 2026-01-19
2週間前                                        | 2026-01-12 .. 2026-01-19
2个月前                                        | 2025-11-01 .. 2025-12-01
3ヶ月前                                        | 2025-10-01 .. 2025-11-01
2年前                                         | 2024-01-01 .. 2025-01-01
最近三天                                        | 2026-01-27 .. 2026-01-31
过去两周                                        | 2026-01-16 .. 2026-01-31
ここ3日間                                       | 2026-01-27 .. 2026-01-31
从3月到5月                                      | 2025-03-01 .. 2025-06-01
3月から5月まで                                    | 2025-03-01 .. 2025-06-01
2023年3月から5月まで                               | 2023-03-01 .. 2023-06-01
3月以来                                        | 2025-03-01 .. 2026-01-31
从3月开始                                       | 2025-03-01 .. 2026-01-31
3月から                                        | 2025-03-01 .. 2026-01-31
10月28日之前                                    | ever .. 2025-10-28
10月28日まで                                    | ever .. 2025-10-29
10月28日之后的周六                                 | 2025-11-01 .. 2025-11-02
10月28日の次の土曜日                                | 2025-11-01 .. 2025-11-02
8月15日早晨                                     | 2025-08-15T05:00 .. 2025-08-15T12:00
10月下旬                                     | 2025-10-21 .. 2025-11-01
8月15日午後                                     | 2025-08-15T12:00 .. 2025-08-15T18:00
"""

#: Words that are no time in these languages, or not for certain.
OTHER_NOT_TIMES = """
hier
was haben wir hier gemacht
mars
lundi
lundi prochain
la semaine prochaine
chaque lundi
en mars prochain
pas hier
il y a une erreur
ça a été fait
mayo
el lunes
cada lunes
la próxima semana
el lunes que viene
en el archivo
no ayer
hace falta
周六
下周
每周
每年3月
上周期的问题
3个月
第3月
3日前完成
2023年2月30日
「昨日」という曲
《昨天》这首歌
除了昨天
3年間
今日本で
日本月球
来週
"""

#: Words of one language that stand in the other.
ACROSS = [
    ("what did die on Tuesday mean", "Tuesday", "2026-01-27 .. 2026-01-28"),
    ("I am in May 2025 again", "May 2025", "2025-05-01 .. 2025-06-01"),
    ("was war im April 2025 los", "April 2025", "2025-04-01 .. 2025-05-01"),
    ("was geschah vor August 2025 noch", "vor August 2025", "ever .. 2025-08-01"),
    ("ab tests of last week", "last week", "2026-01-19 .. 2026-01-26"),
    ("did the vor build die at 10 am on Monday", "10 am on Monday", "2026-01-26T10:00 .. 2026-01-26T11:00"),
    ("im letzten commit of last week", "last week", "2026-01-19 .. 2026-01-26"),
    ("nicht last week sondern gestern", "gestern", "2026-01-29 .. 2026-01-30"),
    ("not heute but gestern", "gestern", "2026-01-29 .. 2026-01-30"),
    ("yesterday und heute", "yesterday", "2026-01-29 .. 2026-01-30"),
]
