package main

import "github.com/oncekeeper/oncekeeper/server"

// accessFlags say which calls leave a line in the log.
type accessFlags struct {
	AccessLog         float64 `name:"access-log" env:"ONCEKEEPER_ACCESS_LOG" group:"Traces and calls in the log" placeholder:"SHARE" help:"Which share of the calls leaves a line in the log, 0 to 1. Not set: none does."`
	AccessLogRefusals float64 `name:"access-log-refusals" env:"ONCEKEEPER_ACCESS_LOG_REFUSALS" group:"Traces and calls in the log" placeholder:"SHARE" help:"The same for calls that are refused, or meet a fault, where it is greater."`
	AccessLogMax      int     `name:"access-log-max" env:"ONCEKEEPER_ACCESS_LOG_MAX" group:"Traces and calls in the log" default:"100" help:"How many such lines a second may have; those left out are counted."`
	AccessLogKeys     bool    `name:"access-log-keys" env:"ONCEKEEPER_ACCESS_LOG_KEYS" group:"Traces and calls in the log" help:"Such lines tell a key's id, which may be personal, and not only its hash."`
}

func (f *accessFlags) check() error {
	if err := checkShare("--access-log", f.AccessLog); err != nil {
		return err
	}
	return checkShare("--access-log-refusals", f.AccessLogRefusals)
}

func (f *accessFlags) config() server.AccessLog {
	return server.AccessLog{Share: f.AccessLog, Refusals: f.AccessLogRefusals, PerSecond: f.AccessLogMax, Keys: f.AccessLogKeys}
}
