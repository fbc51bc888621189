-- A run of the config in test_runs_resume.py, as rolecall wrote it in format 3 of the store.
BEGIN TRANSACTION;
CREATE TABLE answered (who TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO "answered" VALUES('98e8f1b4ebef2ab13bf9b15d48c5f980');
CREATE TABLE data (
    dataset TEXT, row INTEGER, fields BLOB NOT NULL, checksum INTEGER, PRIMARY KEY (dataset, row)
) WITHOUT ROWID;
INSERT INTO "data" VALUES('doubles',0,'{"q":"0","a":"0"}',530135434);
INSERT INTO "data" VALUES('doubles',1,'{"q":"1","a":"2"}',982422707);
INSERT INTO "data" VALUES('doubles',2,'{"q":"2","a":"4"}',1438016504);
INSERT INTO "data" VALUES('doubles',3,'{"q":"3","a":"6"}',1889652417);
INSERT INTO "data" VALUES('doubles',4,'{"q":"4","a":"8"}',2345110894);
INSERT INTO "data" VALUES('doubles',5,'{"q":"5","a":"10"}',247507463);
CREATE TABLE recipes (
    dataset TEXT, model TEXT, asking TEXT, scoring TEXT, PRIMARY KEY (dataset, model)
) WITHOUT ROWID;
INSERT INTO "recipes" VALUES('doubles','doubler','fabf4e7ab374e0564d6d7a3a05d61f08','4ce78efe40be44ee0d71ebfe27898348');
CREATE TABLE requests (
    fingerprint TEXT PRIMARY KEY, kind TEXT NOT NULL, outcome TEXT NOT NULL, request BLOB NOT NULL, reply BLOB NOT NULL,
    checksum INTEGER
);
INSERT INTO "requests" VALUES('b2b62ef61faa4c164238b29c4b687e5e','generate','ok','"Double 0"','{"text":"The answer is 0.","usage":{"seconds":0.007177}}',2882166049);
INSERT INTO "requests" VALUES('7c34dc8a4be155659e60c5d8b67e06d7','generate','ok','"Double 1"','{"text":"The answer is 2.","usage":{"seconds":0.010661}}',2401577890);
INSERT INTO "requests" VALUES('574406fe223b123a5518e384bf62a099','generate','ok','"Double 2"','{"text":"The answer is 4.","usage":{"seconds":0.011239}}',1943634913);
INSERT INTO "requests" VALUES('2b2c1a927f08a410286b8290aed9a92c','generate','ok','"Double 3"','{"text":"The answer is 6.","usage":{"seconds":0.011338}}',1666395123);
INSERT INTO "requests" VALUES('00f7813d3e40a9885c43f614114befaa','generate','ok','"Double 4"','{"text":"The answer is 8.","usage":{"seconds":0.011661}}',2366540316);
INSERT INTO "requests" VALUES('639028dc5fba69e051dc6aaa00b887bc','generate','ok','"Double 5"','{"text":"The answer is 10.","usage":{"seconds":0.012118}}',1962092179);
CREATE TABLE rows (
    dataset TEXT, model TEXT, row INTEGER, outcome TEXT NOT NULL, result TEXT NOT NULL, checksum INTEGER,
    score, correct, input_tokens, output_tokens, seconds, settled,
    PRIMARY KEY (dataset, model, row)
) WITHOUT ROWID;
INSERT INTO "rows" VALUES('doubles','doubler',0,'ok','{"extracted":"0","gold":"0","call":["b2b62ef61faa4c164238b29c4b687e5e","The answer is 0."]}',858546818,1.0,1,NULL,NULL,0.007177,1);
INSERT INTO "rows" VALUES('doubles','doubler',1,'ok','{"extracted":"2","gold":"2","call":["7c34dc8a4be155659e60c5d8b67e06d7","The answer is 2."]}',3054872190,1.0,1,NULL,NULL,0.010661,1);
INSERT INTO "rows" VALUES('doubles','doubler',2,'ok','{"extracted":"4","gold":"4","call":["574406fe223b123a5518e384bf62a099","The answer is 4."]}',1596160558,1.0,1,NULL,NULL,0.011239,1);
INSERT INTO "rows" VALUES('doubles','doubler',3,'ok','{"extracted":"6","gold":"6","call":["2b2c1a927f08a410286b8290aed9a92c","The answer is 6."]}',1980168303,1.0,1,NULL,NULL,0.011338,1);
INSERT INTO "rows" VALUES('doubles','doubler',4,'ok','{"extracted":"8","gold":"8","call":["00f7813d3e40a9885c43f614114befaa","The answer is 8."]}',400135042,1.0,1,NULL,NULL,0.011661,1);
INSERT INTO "rows" VALUES('doubles','doubler',5,'ok','{"extracted":"10","gold":"10","call":["639028dc5fba69e051dc6aaa00b887bc","The answer is 10."]}',297647296,1.0,1,NULL,NULL,0.012118,1);
CREATE TABLE scores (
    dataset TEXT, model TEXT, metric TEXT, card TEXT NOT NULL, PRIMARY KEY (dataset, model, metric)
);
INSERT INTO "scores" VALUES('doubles','doubler','accuracy','{"dataset":"doubles","model":"doubler","metric":"accuracy","value":100.0,"low":60.96657120978348,"high":100.0,"scored":6,"total":6,"outcomes":{"ok":6},"details":{"unit":"%","lower_is_better":false,"interval":"wilson","confidence":0.95,"clusters":6,"excluded":{},"policies":{"failures":"exclude","unparsed":"wrong"}}}');
CREATE TABLE starts (
    id INTEGER PRIMARY KEY, started TEXT NOT NULL, manifest TEXT NOT NULL, config TEXT NOT NULL
);
INSERT INTO "starts" VALUES(1,'2026-11-16T02:00:21+00:00','{"rolecall":"0.1.0","python":"3.11.7","platform":"Linux-6.18.44-fc-v445-x86_64-with-glibc2.36","models":{"doubler":{"function":"config.answer","source":"160c44341b9a99f5","revision":null}},"pairs":[{"dataset":"doubles","model":"doubler","template":"14de977d89a105a19738995c948658d4"}]}','{
    "models": [{"abbr": "doubler", "type": "config.answer"}],
    "datasets": [
        {
            "abbr": "doubles",
            "type": "File",
            "path": "rows.jsonl",
            "reader_cfg": {"input_columns": ["q"], "output_column": "a"},
            "infer_cfg": {"prompt_template": {"type": "PromptTemplate", "template": "Double {q}"}},
            "eval_cfg": {
                "evaluator": "AccEvaluator",
                "pred_postprocessor": {"type": "gsm8k_postprocess"}
            }
        }
    ]
}');
CREATE TABLE times (
    model TEXT, node TEXT, rows INTEGER, computing REAL, waiting REAL, PRIMARY KEY (model, node)
) WITHOUT ROWID;
COMMIT;
PRAGMA user_version=3;
