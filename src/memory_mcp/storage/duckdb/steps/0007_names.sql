-- Schema version 7: lists of names as text, their items separated by the character 31. A list column makes DuckDB's log
-- take in with each new row the lists of all rows of its vector, up to 2048 of them.

ALTER TABLE node ALTER keywords TYPE VARCHAR USING array_to_string(keywords, chr(31));
ALTER TABLE node ALTER agents TYPE VARCHAR USING array_to_string(agents, chr(31));
ALTER TABLE node ALTER projects TYPE VARCHAR USING array_to_string(projects, chr(31));
