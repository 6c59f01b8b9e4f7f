package lifecycletest

import (
	"flag"
	"os"
	"strconv"

	"pgregory.net/rapid"
)

// Check is rapid.Check with that many checks, unless the command line or the
// environment says how many (-rapid.checks, RAPID_CHECKS). A failure prints the
// seed by which it is run again.
func Check(t rapid.TB, checks int, property func(*rapid.T)) {
	t.Helper()
	said := os.Getenv("RAPID_CHECKS") != ""
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == checksFlag })
	if !said {
		// Not flag.Set, which would count as said from then on.
		value := flag.Lookup(checksFlag).Value
		before := value.String()
		defer func() { _ = value.Set(before) }()
		if err := value.Set(strconv.Itoa(checks)); err != nil {
			t.Fatalf("%s: %v", checksFlag, err)
		}
	}
	rapid.Check(t, property)
}

const checksFlag = "rapid.checks"
