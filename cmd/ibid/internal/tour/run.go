package tour

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ibid-go/ibid"
)

// Options of a tour. The zero value of each optional field is the default.
type Options struct {
	// Program is the ibid program that serves. Required.
	Program string
	// Store is the URL of the store that all servers share. Default: a SQLite
	// file in the tour's own folder, under a secret of its own.
	Store string
	// SecretFile holds the secret of Store. Default: none.
	SecretFile string
	// Survives is what the records of Store survive; scenes that need more are
	// skipped. Without Store it has no meaning.
	Survives ibid.Survival
	// Break serves with a fault built in: see package broken. Default: none.
	Break string
	// Only names the scenes to play. Default: all.
	Only []string
	// Out shows the tour as it goes. Required.
	Out Printer
}

// Verdict says how a scene ended.
type Verdict string

// The verdicts.
const (
	Kept        Verdict = "kept"
	Broken      Verdict = "broken"
	Skipped     Verdict = "skipped"
	Interrupted Verdict = "interrupted" // neither: the tour could not go on
)

// Step is one thing that was sent, or counted, and what came back.
type Step struct {
	Sent    string `json:"sent"`
	Got     string `json:"got"`
	Charges *int   `json:"charges,omitempty"` // what the ledger holds, where it was asked
}

// Result is a scene that ended.
type Result struct {
	Scene    string  `json:"scene"`
	Title    string  `json:"title"`
	Proves   string  `json:"proves"`
	Verdict  Verdict `json:"verdict"`
	Expected string  `json:"expected,omitempty"` // of a broken scene
	Seen     string  `json:"seen,omitempty"`     // of a broken scene
	Reason   string  `json:"reason,omitempty"`   // why it is not kept
	Seconds  float64 `json:"seconds"`
	Steps    []Step  `json:"steps"`
}

// Report is a tour that ended.
type Report struct {
	Scenes   int     `json:"scenes"`
	Kept     int     `json:"kept"`
	Skipped  int     `json:"skipped"`
	Broken   string  `json:"broken,omitempty"` // the scene where the tour stopped
	Requests int64   `json:"requests"`
	Charges  int     `json:"charges"` // in the ledgers of all servers
	Seconds  float64 `json:"seconds"`
}

// ErrBroken reports that a scene was not kept. Its text names the scene.
var ErrBroken = errors.New("promise broken")

// Run plays the tour. It ends every process that it started, and removes every
// file that it made, also when ctx ends.
func Run(ctx context.Context, opts Options) (Report, error) {
	began := time.Now()
	scenes, err := choose(opts.Only)
	if err != nil {
		return Report{}, err
	}
	t := &tour{opts: opts, client: newClient(), id: strings.ToLower(rand.Text()[:5]), charges: map[string]int{}}
	if t.dir, err = os.MkdirTemp("", "ibid-demo-"); err != nil {
		return Report{}, fmt.Errorf("make the tour's folder: %w", err)
	}
	defer os.RemoveAll(t.dir)
	if err := t.writeSealKey(); err != nil {
		return Report{}, err
	}
	if opts.Store == "" {
		if err := t.ownStore(); err != nil {
			return Report{}, err
		}
	}
	defer func() { t.stopMain(ctx.Err() != nil) }()
	report := Report{Scenes: len(scenes)}
	for i, scene := range scenes {
		opts.Out.Scene(i+1, len(scenes), scene)
		r, playErr := t.play(ctx, scene)
		opts.Out.Done(r)
		switch r.Verdict {
		case Kept:
			report.Kept++
			continue
		case Skipped:
			report.Skipped++
			continue
		case Broken:
			err = fmt.Errorf("%w: scene %s: %w", ErrBroken, scene.Name, playErr)
		case Interrupted:
			err = fmt.Errorf("scene %s: %w", scene.Name, playErr)
		}
		report.Broken = scene.Name
		break
	}
	report.Requests = t.client.sent.Load()
	for _, n := range t.charges {
		report.Charges += n
	}
	report.Seconds = time.Since(began).Seconds()
	opts.Out.Total(report)
	return report, err
}

func choose(only []string) ([]Scene, error) {
	scenes := Scenes()
	if len(only) == 0 {
		return scenes, nil
	}
	var names []string
	byName := map[string]Scene{} // name → scene
	for _, s := range scenes {
		names = append(names, s.Name)
		byName[s.Name] = s
	}
	chosen := make([]Scene, 0, len(only))
	for _, name := range only {
		s, ok := byName[name]
		if !ok {
			return nil, fmt.Errorf("there is no scene %q: choose from %s", name, strings.Join(names, ", "))
		}
		chosen = append(chosen, s)
	}
	return chosen, nil
}

// tour is what the scenes share.
type tour struct {
	opts    Options
	client  *client
	id      string // differs from tour to tour: a store may be used for several
	dir     string // the tour's own folder
	main    *server
	charges map[string]int // order → what the ledger held when it was last asked
}

func (t *tour) ownStore() error {
	t.opts.Store = "sqlite:" + filepath.Join(t.dir, "keys.db")
	t.opts.SecretFile = filepath.Join(t.dir, "secret")
	t.opts.Survives = ibid.ProcessKill | ibid.ServerKill | ibid.PowerLoss
	if err := os.WriteFile(t.opts.SecretFile, []byte(rand.Text()+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the tour's secret: %w", err)
	}
	return nil
}

// sealKeyFile holds the key that seals the requests that a shop keeps.
func (t *tour) sealKeyFile() string { return filepath.Join(t.dir, "seal") }

func (t *tour) writeSealKey() error {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	if err := os.WriteFile(t.sealKeyFile(), []byte(hex.EncodeToString(key)+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the tour's seal key: %w", err)
	}
	return nil
}

func (t *tour) stopMain(atOnce bool) {
	if t.main != nil {
		t.main.end(atOnce)
	}
}

// missingError says what is not there that a scene needs. The scene is skipped.
type missingError string

func (e missingError) Error() string { return string(e) }

func (t *tour) play(ctx context.Context, scene Scene) (Result, error) {
	began := time.Now()
	r := Result{Scene: scene.Name, Title: scene.Title, Proves: scene.Proves, Steps: []Step{}}
	if missing := scene.Survives &^ t.opts.Survives; missing != 0 {
		r.Verdict, r.Reason = Skipped, fmt.Sprintf("the store does not survive %s", missing)
		return r, nil
	}
	s := &stage{tour: t, result: &r}
	err := scene.play(ctx, s)
	r.Seconds = time.Since(began).Seconds()
	var broken *BrokenError
	var missing missingError
	switch {
	case ctx.Err() != nil:
		r.Verdict, err = Interrupted, context.Cause(ctx)
		r.Reason = err.Error()
	case errors.As(err, &missing):
		r.Verdict, r.Reason, err = Skipped, missing.Error(), nil
	case errors.As(err, &broken):
		r.Verdict, r.Reason, r.Expected, r.Seen = Broken, broken.What, broken.Expected, broken.Seen
	case err != nil:
		r.Verdict, r.Reason = Interrupted, err.Error()
	default:
		r.Verdict = Kept
	}
	s.stopAll(err != nil)
	return r, err
}
