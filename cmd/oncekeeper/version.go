package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

func (versionCmd) Help() string { return "Example:\n\n  oncekeeper version" }

func (versionCmd) Run(term console) error {
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value
			}
		}
	}
	_, err := fmt.Fprintf(term.out, "oncekeeper %s%s %s %s/%s\n", version(), revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// version is the module's, as it was built.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
