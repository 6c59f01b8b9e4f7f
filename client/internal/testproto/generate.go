// Package testproto holds the proto of a service that tests guard and call. No
// product code imports it.
package testproto

//go:generate sh -c "cd ../../.. && ./bin/buf generate --config '{\"version\":\"v2\",\"modules\":[{\"path\":\"proto\"},{\"path\":\"client/internal/testproto\"}]}' --path client/internal/testproto/testservice"
