-- A journal as version 1 of the schema has it. Never edited: releases to come must be able to open it.
BEGIN TRANSACTION;
CREATE TABLE breakers (seq INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, snapshot TEXT NOT NULL, resets INTEGER NOT NULL);
INSERT INTO "breakers" VALUES(1,'pay','{"state":"closed"}',0);
CREATE TABLE calls (
    seq INTEGER PRIMARY KEY,
    operation_id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    tool TEXT NOT NULL,
    scope TEXT NOT NULL,
    lane TEXT NOT NULL,
    identity TEXT NOT NULL,
    n INTEGER NOT NULL,
    entry INTEGER NOT NULL,
    terms TEXT NOT NULL,
    state TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    disputed INTEGER NOT NULL,
    log_no INTEGER NOT NULL,
    log_head TEXT NOT NULL,
    lease_wall, lease_boot TEXT NOT NULL, lease_mono,
    due_at,
    arguments BLOB NOT NULL,
    result BLOB,
    body TEXT NOT NULL
);
INSERT INTO "calls" VALUES(1,'op_1','pay:1','business','acme','pay','','','identity-1',1,0,'["write",true,"",null,null,null,null,"",259200.0,false]','succeeded',1,0,2,'db2dca6de4bac4037f55558560fa73b51d3d67865cc765a9d9b51acc942706fa',1700000030.0,'boot',1030.0,1700259200.0,X'7B22616D6F756E74223A317D',X'72656365697074','["words-1","1:1","op_1",["host","boot","space",4711,"100"],[1700000000.0,"boot",1000.0],[1700000000.0,"boot",1000.0],0,0,"","",[[1,1,["host","boot","space",4711,"100"],[1700000000.0,"boot",1000.0],"done",[1700000000.0,"boot",1000.0],[1700000000.0,"boot",1000.0],null]],null,"","","answer",false,false,null,[]]');
INSERT INTO "calls" VALUES(2,'op_2','pay:2','business','acme','pay','','','identity-2',1,0,'["write",true,"",null,null,null,null,"",259200.0,false]','unknown',1,0,2,'117005122531ecaddc8adeff3496e294222c95a1ed745eddfc8f81a5f5156157',1700000030.0,'boot',1030.0,NULL,X'7B22616D6F756E74223A327D',NULL,'["words-2","1:2","op_2",["host","boot","space",4711,"100"],[1700000000.0,"boot",1000.0],[1700000000.0,"boot",1000.0],0,0,"","",[[1,1,["host","boot","space",4711,"100"],[1700000000.0,"boot",1000.0],"maybe",[1700000000.0,"boot",1000.0],[1700000000.0,"boot",1000.0],["unknown","maybe","timeout","no answer",false,null,false,false,false,false,false,false]]],["unknown","maybe","timeout","no answer",false,null,false,false,false,false,false,false],"","","",false,false,null,[]]');
INSERT INTO "calls" VALUES(3,'op_3','pay:fad3f7cb31b96ba8d0237d616e28ef79','scoped','acme','pay','run:4:acme:trip','','identity-3',1,1,'["write",true,"",null,null,null,null,"",259200.0,false]','processing',1,0,1,'e6c5bbc89781690db23d9b680ff601489d6945727be4fbc7c42e8c3070402900',1700000030.0,'boot',1030.0,NULL,X'7B22616D6F756E74223A337D',NULL,'["words-3","1:3","op_3",["host","boot","space",4711,"100"],[1700000000.0,"boot",1000.0],[1700000000.0,"boot",1000.0],1,0,"","m1/0",[[1,1,["host","boot","space",4711,"100"],[1700000000.0,"boot",1000.0],"open",null,null,null]],null,"","","",false,false,null,[]]');
CREATE TABLE forgotten (operation_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE log (
    id INTEGER PRIMARY KEY,
    operation_id TEXT NOT NULL,
    no INTEGER NOT NULL,
    at,
    event TEXT NOT NULL,
    state TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    detail TEXT NOT NULL,
    digest TEXT NOT NULL,
    head TEXT NOT NULL,
    UNIQUE (operation_id, no)
);
INSERT INTO "log" VALUES(1,'op_1',1,1700000000.0,'claim','processing',1,1,'pay','','4da3ce383d81109a40c1171a967f3856a672c560764d0fd7d84df2beecf3bd8a');
INSERT INTO "log" VALUES(2,'op_1',2,1700000000.0,'succeed','succeeded',1,1,'','6f32860910ca0fb2a20c7fda143666b09dbf8db5238195c90a586fb542ff0cad','db2dca6de4bac4037f55558560fa73b51d3d67865cc765a9d9b51acc942706fa');
INSERT INTO "log" VALUES(3,'op_2',1,1700000000.0,'claim','processing',1,1,'pay','','d41c69e6cbbaa26627f3be32f9ed9701b582b9265f3bb4ad2d50f2cc48d55023');
INSERT INTO "log" VALUES(4,'op_2',2,1700000000.0,'doubt','unknown',1,1,'timeout/maybe','','117005122531ecaddc8adeff3496e294222c95a1ed745eddfc8f81a5f5156157');
INSERT INTO "log" VALUES(5,'op_3',1,1700000000.0,'claim','processing',1,1,'pay','','e6c5bbc89781690db23d9b680ff601489d6945727be4fbc7c42e8c3070402900');
CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), journal_id TEXT NOT NULL, schema INTEGER NOT NULL, commits INTEGER NOT NULL, writer TEXT NOT NULL);
INSERT INTO "meta" VALUES(1,'jn_7ee24597693feea3461e2b41351c5246',1,8,'8e924807170d8d21/8');
CREATE TABLE outbox (alert_id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, operation_id TEXT NOT NULL, at);
INSERT INTO "outbox" VALUES(1,'unknown','op_2',1700000000.0);
CREATE TABLE runs (seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, run_id TEXT NOT NULL, entry INTEGER NOT NULL, turn TEXT, since INTEGER NOT NULL, spent TEXT NOT NULL, state TEXT NOT NULL, UNIQUE (tenant, run_id));
INSERT INTO "runs" VALUES(1,'acme','trip',1,NULL,1,'{}','active');
CREATE TABLE seals (upto INTEGER PRIMARY KEY, at, text TEXT NOT NULL);
INSERT INTO "seals" VALUES(5,1700000000.0,'24c776fa627d2f8faf512e696388291e04447b262bc51070b61f8dd19b801528');
CREATE TABLE steps (scope TEXT NOT NULL, step TEXT NOT NULL, operation_id TEXT NOT NULL, PRIMARY KEY (scope, step)) WITHOUT ROWID;
INSERT INTO "steps" VALUES('run:4:acme:trip','m1/0','op_3');
CREATE INDEX calls_alike ON calls (scope, tool, lane, identity, n, entry) WHERE scope <> '';
CREATE INDEX calls_made ON calls (scope, tool, entry) WHERE scope <> '';
CREATE INDEX calls_open ON calls (state, tool, scope, tenant) WHERE state <> 'succeeded';
CREATE INDEX calls_disputed ON calls (seq) WHERE disputed = 1;
CREATE INDEX calls_due ON calls (due_at) WHERE due_at IS NOT NULL;
CREATE TRIGGER log_no_update BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER log_no_delete BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER seals_no_update BEFORE UPDATE ON seals BEGIN SELECT RAISE(ABORT, 'the seals is append-only'); END;
CREATE TRIGGER seals_no_delete BEFORE DELETE ON seals BEGIN SELECT RAISE(ABORT, 'the seals is append-only'); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('outbox',1);
COMMIT;
