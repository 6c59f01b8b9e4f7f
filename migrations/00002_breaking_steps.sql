-- +goose Up

-- The steps that versions which do not know them cannot serve. A step that breaks
-- older versions adds its own number here; every other is one that they may serve
-- beside, so that an old server which is started again in the middle of a rollout
-- serves.
CREATE TABLE oncekeeper_breaking_steps (step bigint PRIMARY KEY);
