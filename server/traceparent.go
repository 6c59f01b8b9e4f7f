package server

import (
	"strings"

	"github.com/oncekeeper/oncekeeper"
)

// traceParent gives s where it is a traceparent of version 00 as W3C's Trace Context,
// section 3.2, has it, and none otherwise: what is no good is left out there too.
func traceParent(s string) string {
	if len(s) != oncekeeper.MaxTraceParentBytes || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return ""
	}
	version, trace, span, flags := s[:2], s[3:35], s[36:52], s[53:]
	if version != "00" || !names(trace) || !names(span) || !isLowerHex(flags) {
		return ""
	}
	return s
}

// names: zeros alone name nothing.
func names(id string) bool { return isLowerHex(id) && strings.Trim(id, "0") != "" }

func isLowerHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// previousTrace gives the traceparent of the attempt before the last: that of the
// newest entry of rec's history, which an operator's act has none of.
func previousTrace(rec *oncekeeper.KeyRecord) string {
	if n := len(rec.History); n > 0 {
		return rec.History[n-1].TraceParent
	}
	return ""
}
