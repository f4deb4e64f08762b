package tour

import (
	"path/filepath"
	"time"
)

// profile says how a server differs from the main one. Zero fields are the
// program's defaults.
type profile struct {
	naked                           bool // without the middleware and without the unique constraint
	takeover                        string
	lease, maxRun, retain, remember time.Duration
	store                           string // "" is the tour's
	answerTimeout                   time.Duration
	failOpen                        bool
	book                            string // names the file of its payments; "" is "main"
	shop                            string // names the file of its orders; "" serves none
	provider                        string // URL of the provider; "" serves no orders
	recover                         time.Duration
}

func (p profile) args(t *tour) []string {
	book := p.book
	if book == "" {
		book = "main"
	}
	store := p.store
	if store == "" {
		store = t.opts.Store
	}
	args := []string{"demo", "--serve", "127.0.0.1:0", "--attached", "--store", store, "--data", filepath.Join(t.dir, book+".payments")}
	if p.naked {
		return append(args, "--naked")
	}
	if t.opts.SecretFile != "" {
		args = append(args, "--secret-file", t.opts.SecretFile)
	}
	if t.opts.Break != "" {
		args = append(args, "--break", t.opts.Break)
	}
	if p.failOpen {
		args = append(args, "--fail-open")
	}
	if p.takeover != "" {
		args = append(args, "--takeover", p.takeover)
	}
	if p.shop != "" {
		args = append(args, "--shop", filepath.Join(t.dir, p.shop+".orders"), "--seal-key", "1:"+t.sealKeyFile())
	}
	if p.provider != "" {
		args = append(args, "--provider", p.provider)
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"--lease", p.lease}, {"--max-run", p.maxRun}, {"--retain", p.retain}, {"--remember", p.remember}, {"--answer-timeout", p.answerTimeout}, {"--recover", p.recover}} {
		if f.d != 0 {
			args = append(args, f.name, f.d.String())
		}
	}
	return args
}
