package tx_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ibid-go/ibid"
	"github.com/ibid-go/ibid/steps"
)

// A step in a transaction: its writes and its recovery point are there together,
// or not at all.
func TestStepTxCommitsEffectAndRecoveryPoint(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		call, id := b.newCall()
		call.Tx = nil
		errClosed := errors.New("closed")
		wrote := 0
		run := func(inside, behind error) (string, error) {
			v, _, err := steps.Run(t.Context(), b.engine, call, func(ctx context.Context, op *steps.Op) (string, error) {
				v, err := b.stepTx(ctx, op, "order", func(ctx context.Context) (string, error) {
					wrote++
					return fmt.Sprint("order ", wrote), errors.Join(b.charge(ctx, id, "order"), inside)
				})
				return v, errors.Join(err, behind)
			})
			return v, err
		}
		if _, err := run(errClosed, nil); !errors.Is(err, errClosed) || b.effects(id) != 0 {
			t.Fatalf("failed inside: %v, %d effects, want none", err, b.effects(id))
		}
		if _, err := run(nil, errClosed); !errors.Is(err, errClosed) || b.effects(id) != 1 {
			t.Fatalf("failed behind: %v, %d effects, want one", err, b.effects(id))
		}
		if v, err := run(nil, nil); err != nil || v != "order 2" || b.effects(id) != 1 {
			t.Fatalf("%q, %v, %d effects: the step ran again", v, err, b.effects(id))
		}
	})
}

// An attempt that was taken over cannot commit a step: its writes go with it.
func TestStepTxOfALostClaimIsRolledBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		call, id := b.newCall()
		call.Tx = nil
		other := join(t, b.kind, b.where, 0)
		_, _, err := steps.Run(t.Context(), b.engine, call, func(ctx context.Context, op *steps.Op) (string, error) {
			a, _ := ibid.AttemptFrom(ctx)
			if err := b.store.Extend(ctx, a.Key, a.Token, 0); err != nil {
				t.Fatal(err)
			}
			_, _, err := steps.Run(t.Context(), other.engine, call, func(ctx context.Context, op *steps.Op) (string, error) {
				return other.stepTx(ctx, op, "order", func(ctx context.Context) (string, error) {
					return "theirs", other.charge(ctx, id, "theirs")
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			return b.stepTx(ctx, op, "order", func(ctx context.Context) (string, error) {
				return "ours", b.charge(ctx, id, "ours")
			})
		})
		if !errors.Is(err, ibid.ErrClaimLost) || b.effects(id) != 1 {
			t.Fatalf("%v, %d effects: want ErrClaimLost and the other's", err, b.effects(id))
		}
	})
}

// orderOfSteps is an operation of a step elsewhere, which the ledger stands for, and
// one in a transaction, with a point between everything.
func orderOfSteps(ctx context.Context, e *ibid.Engine, o *opened, id string, lease time.Duration, reach func(string)) (string, error) {
	call := orderCall(o, id, nil)
	call.Policy = &ibid.Policy{Lease: lease, MaxTakeovers: -1}
	v, _, err := steps.Run(ctx, e, call, func(ctx context.Context, op *steps.Op) (string, error) {
		reach("before mark")
		charge, err := steps.Step(ctx, op, "charge", func(ctx context.Context, info steps.StepInfo) (string, error) {
			reach("after mark")
			// The downstream deduplicates by the derived key.
			n, err := o.count(ctx, fmt.Sprintf("SELECT count(*) FROM ledger WHERE part = '%.16s'", info.Key))
			if err == nil && n == 0 {
				err = o.auto(ctx, fmt.Sprintf("INSERT INTO ledger VALUES ('%s', '%.16s')", id, info.Key))
			}
			reach("mid work")
			return "charge of " + id, err
		})
		if err != nil {
			return "", err
		}
		reach("after effect")
		number, err := o.stepTx(ctx, op, "order", func(ctx context.Context) (string, error) {
			err := o.charge(ctx, id, "order")
			reach("before commit")
			return "order of " + id, err
		})
		if err != nil {
			return "", err
		}
		reach("after commit")
		return charge + ", " + number, nil
	})
	reach("before answer")
	return v, err
}

// A process is killed at each point of an operation of two steps; whoever asks
// next finishes it.
func TestStepsResumeAfterAKill(t *testing.T) {
	t.Parallel()
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	each(t, func(t *testing.T, b *bench) {
		kills := 0
		for range rounds {
			for _, point := range points {
				call, _ := b.newCall()
				id := call.Key.ID
				said := b.killAt(id, point, nil, envWork+"=steps")
				kills++
				want := "charge of " + id + ", order of " + id
				if said != "" && said != want {
					t.Errorf("%s: it answered %q", point, said)
				}
				for range 2 {
					v, err := orderOfSteps(t.Context(), b.engine, b.opened, id, 0, func(string) {})
					if err != nil || v != want {
						t.Errorf("%s: %q, %v", point, v, err)
					}
				}
				if n := b.effects(id); n != 2 {
					t.Errorf("%s: %d effects, want 2", point, n)
				}
			}
		}
		t.Logf("%d kills", kills)
	})
}
