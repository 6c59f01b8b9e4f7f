package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/oncekeeper/oncekeeper/internal/bench"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

func run(files []string) error {
	for _, file := range files {
		if err := plot(file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func plot(file string) error {
	image, err := draw(file)
	if err != nil {
		return err
	}
	return os.WriteFile(imageOf(file), image, 0o644)
}

func imageOf(file string) string { return strings.TrimSuffix(file, ".json") + ".svg" }

func draw(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var g bench.Growth
	if err := json.Unmarshal(data, &g); err != nil {
		return nil, err
	}
	panels, err := panelsOf(g)
	if err != nil {
		return nil, err
	}
	return svg(title(g), panels), nil
}
