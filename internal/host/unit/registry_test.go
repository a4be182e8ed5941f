package unit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/text/redact"
)

// stuck is a unit that does not stop.
type stuck struct{ *Unit }

func (stuck) Start(context.Context) error               { return nil }
func (stuck) Stop(context.Context, time.Duration) error { return errors.New("it hangs") }

// The error of a stop names the units, and stays short with many.
func TestStopAllNamesUnits(t *testing.T) {
	r := NewRegistry(new(redact.Redactor))
	for i := range 1000 {
		r.Add([]Runner{stuck{&Unit{Candidate: discovery.Candidate{ID: fmt.Sprintf("x%03d", i)}}}})
	}
	var want []error
	for i := range maxNamed {
		want = append(want, fmt.Errorf("x%03d: it hangs", i))
	}
	want = append(want, errors.New("and 992 more"))
	if err := r.StopAll(t.Context(), 0); err == nil || err.Error() != errors.Join(want...).Error() {
		t.Errorf("%v", err)
	}
}
