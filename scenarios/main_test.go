package scenarios

import (
	"os"
	"testing"
)

// clientRole is set in a copy of this test binary that is a client process.
const clientRole = "ONCEKEEPER_SCENARIO_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(clientRole) != "" {
		os.Exit(raceAsClient())
	}
	os.Exit(m.Run())
}
