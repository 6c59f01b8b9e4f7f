package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncekeeper/oncekeeper/server/auth"
)

// tokenCmd is for the file that serve --principals takes.
type tokenCmd struct {
	New tokenNewCmd `cmd:"" help:"Make a bearer token, and its entry for the principals file."`
}

type tokenNewCmd struct {
	Name      string   `arg:"" help:"The principal's name, which is kept with what it does."`
	Role      string   `enum:"caller,operator" default:"caller" help:"What it is there for: ${enum}."`
	Tenant    []string `required:"" placeholder:"PATTERN" help:"Whose operations it may call; * for all. May be repeated."`
	Operation []string `placeholder:"PATTERN" help:"Which operations. Default: all. May be repeated."`
	JSON      bool     `name:"json" help:"Print the token and the entry as JSON."`
}

func (c *tokenNewCmd) Help() string {
	return `The token is shown this once, and kept nowhere: the file has its SHA-256, by which nobody finds it. To exchange a token, give the
principal both digests until its callers show the new one.

Examples:

  oncekeeper token new payments --tenant acme

  oncekeeper token new on-call --role operator --tenant acme --tenant 'acme-*'

  oncekeeper token new reports --tenant acme --operation 'reports.*' --json`
}

// entry is a principal as the file has it; JSON is YAML too.
type entry struct {
	Name        string    `json:"name"`
	Role        auth.Role `json:"role"`
	Tenant      []string  `json:"tenant"`
	Operation   []string  `json:"operation,omitempty"`
	TokenSHA256 string    `json:"token_sha256"`
}

func (c *tokenNewCmd) Run(term console) error {
	token := auth.NewToken()
	e := entry{Name: c.Name, Role: auth.Role(c.Role), Tenant: c.Tenant, Operation: c.Operation, TokenSHA256: auth.TokenDigest(token)}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := auth.Parse("the entry", fmt.Appendf(nil, "principals: [%s]\n", line)); err != nil {
		if faults, ok := errors.AsType[auth.Faults](err); ok {
			err = errors.New(faults[0].Reason)
		}
		return &codedError{err, exitUsage}
	}
	if c.JSON {
		return json.NewEncoder(term.out).Encode(struct {
			Token     string `json:"token"`
			Principal entry  `json:"principal"`
		}{token, e})
	}
	_, err = fmt.Fprintf(term.out, "the token, shown this once:\n\n%s\n\nunder principals: in the file of serve --principals:\n\n  - %s\n", token, line)
	return err
}
