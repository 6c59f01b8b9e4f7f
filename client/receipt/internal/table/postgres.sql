-- The receipts of Oncekeeper: one row an idempotency key, in the database that
-- the operation changes, written in the transaction that changes it.
CREATE TABLE oncekeeper_receipts (
    -- Keys are compared byte for byte.
    tenant             text COLLATE "C" NOT NULL,
    operation          text COLLATE "C" NOT NULL,
    id                 text COLLATE "C" NOT NULL,
    fingerprint_scheme text    NOT NULL,
    fingerprint        bytea   NOT NULL,
    -- The least fencing token that may still apply it; 0: none was set.
    floor              bigint  NOT NULL,
    -- Of the attempt that applied it.
    token              bigint  NOT NULL,
    -- True only inside the transaction that is applying it. A committed row that
    -- has it was committed by hand, without its response.
    in_doubt           boolean NOT NULL,
    -- When it was applied, or last closed: microseconds since the Unix epoch, by
    -- this server's clock.
    written            bigint  NOT NULL,
    -- What was answered, encoded; null: not applied.
    response           bytea,
    PRIMARY KEY (tenant, operation, id)
);

-- For the sweep of old ones.
CREATE INDEX oncekeeper_receipts_written ON oncekeeper_receipts (written);
