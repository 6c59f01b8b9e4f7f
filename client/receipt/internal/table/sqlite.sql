-- The receipts of Oncekeeper: one row an idempotency key, in the database that
-- the operation changes, written in the transaction that changes it.
CREATE TABLE oncekeeper_receipts (
    tenant             TEXT    NOT NULL,
    operation          TEXT    NOT NULL,
    id                 TEXT    NOT NULL,
    fingerprint_scheme TEXT    NOT NULL,
    fingerprint        BLOB    NOT NULL,
    -- The least fencing token that may still apply it; 0: none was set.
    floor              INTEGER NOT NULL,
    -- Of the attempt that applied it.
    token              INTEGER NOT NULL,
    -- True only inside the transaction that is applying it. A committed row that
    -- has it was committed by hand, without its response.
    in_doubt           BOOLEAN NOT NULL,
    -- When it was applied, or last closed: microseconds since the Unix epoch, by
    -- the host's clock.
    written            INTEGER NOT NULL,
    -- What was answered, encoded; null: not applied.
    response           BLOB,
    PRIMARY KEY (tenant, operation, id)
);

-- For the sweep of old ones.
CREATE INDEX oncekeeper_receipts_written ON oncekeeper_receipts (written);
