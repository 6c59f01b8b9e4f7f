-- +goose Up

-- A row is a record. What statements condition on, and what depends on the
-- moment of writing, has a column; the rest is in two encoded parts, so that a
-- field more is no migration. Moments are microseconds since the Unix epoch by
-- this server's clock, lengths of time microseconds, and 0 is none.
--
-- Keys are compared byte for byte, so that their order is the same on every
-- store and no collation's change can corrupt the index.
CREATE TABLE oncekeeper_records (
    tenant          text COLLATE "C" NOT NULL,
    operation       text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    token           bigint   NOT NULL,
    revision        bigint   NOT NULL,
    created         bigint   NOT NULL,
    lease_end       bigint   NOT NULL,
    unsettled_until bigint   NOT NULL,
    expires         bigint   NOT NULL,
    settled         bigint   NOT NULL,
    -- Before this moment a sweep need not look at the row: never later than
    -- expires. A settlement that keeps the record as long as was granted leaves it
    -- alone.
    sweep_at        bigint   NOT NULL,
    -- As granted: how long the lease is, and how long a settled record is kept.
    lease           bigint   NOT NULL,
    retention       bigint   NOT NULL,
    state           smallint NOT NULL,
    last            smallint NOT NULL,
    takeover        boolean  NOT NULL,
    hold            boolean  NOT NULL,
    -- What the last Begin asked, and what its attempt saved.
    granted         bytea    NOT NULL,
    -- What was last settled with; null for nothing.
    outcome         bytea,
    PRIMARY KEY (tenant, operation, id)
) WITH (
    -- Room on a row's page for its settled version, which is some twice as large:
    -- with no column of an index changed, settling then touches no index.
    fillfactor = 30,
    -- Rows die as fast as they come: clean up after a share, not a fifth, of them.
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05
);

CREATE INDEX oncekeeper_records_sweep ON oncekeeper_records (sweep_at);

-- All rows, and not only those that are pending: an index that settling changes
-- makes every settlement write to all of them.
CREATE INDEX oncekeeper_records_lease ON oncekeeper_records (lease_end);
