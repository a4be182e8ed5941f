package exthost

import (
	"errors"
	"sync"
	"time"

	"github.com/exthost/exthost/protocol"
)

// What a destination's children may do before connections to them are refused.
const (
	fuseStrikes = 3                // failures in a row …
	fuseWindow  = 5 * time.Minute  // … within this time
	fuseRetry   = 30 * time.Second // from the last failure, or probe, to the next probe
)

// fuse counts the failures of something since it last did its work. When it has
// blown, one call in fuseRetry goes through, to see whether it works again.
type fuse struct {
	strikes []time.Time // since the last success, the latest fuseStrikes
	until   time.Time   // once blown: when the next probe may go through
	cause   error       // of the latest failure
}

// failed counts a failure.
func (f *fuse) failed(now time.Time, cause error) {
	f.strikes = append(f.strikes, now)
	f.strikes = f.strikes[max(0, len(f.strikes)-fuseStrikes):]
	f.cause = cause
	if f.blown(now) {
		f.until = now.Add(fuseRetry)
	}
}

func (f *fuse) blown(now time.Time) bool {
	return !f.until.IsZero() || len(f.strikes) == fuseStrikes && now.Sub(f.strikes[0]) < fuseWindow
}

// refuses returns why a call may not go through; nil when it may.
func (f *fuse) refuses(now time.Time) error {
	if !now.Before(f.until) {
		return nil
	}
	wait := f.until.Sub(now)
	e := protocol.Errorf(protocol.NotReady, "it failed %d times in a row, the last time: %s; the next try is in %s", fuseStrikes, message(f.cause), wait.Round(time.Second))
	e.RetryAfter = wait
	if cause, ok := errors.AsType[*protocol.Error](f.cause); ok {
		e.Evidence = cause.Evidence
	}
	return e
}

// admit is refuses for a call that goes through if it may: it is the probe then.
func (f *fuse) admit(now time.Time) error {
	err := f.refuses(now)
	if err == nil && !f.until.IsZero() {
		f.until = now.Add(fuseRetry)
	}
	return err
}

// fuses are those of a destination: one for each key whose instance ended in the
// midst of its work, and one for all instances that did not get that far.
type fuses struct {
	mu    sync.Mutex
	byKey map[string]*fuse // only of what has failed since it last worked
}

// starts is the key of the fuse of starts, which no instance has.
const starts = "\x00starts"

// admit returns why a call for an instance may not go through. lives says that the
// instance need not be started for it.
func (f *fuses) admit(now time.Time, key string, lives bool) error {
	return f.each(key, lives, func(one *fuse) error { return one.admit(now) })
}

// refuses is admit for whoever only asks.
func (f *fuses) refuses(now time.Time, key string, lives bool) error {
	return f.each(key, lives, func(one *fuse) error { return one.refuses(now) })
}

func (f *fuses) each(key string, lives bool, ask func(*fuse) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range [...]string{key, starts} {
		if one := f.byKey[k]; one != nil && (k == key || !lives) {
			if err := ask(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxFuses bounds the keys with failures that are remembered.
const maxFuses = 1024

func (f *fuses) failed(now time.Time, key string, cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byKey[key] == nil {
		if f.byKey == nil {
			f.byKey = make(map[string]*fuse)
		}
		for other := range f.byKey {
			if len(f.byKey) < maxFuses {
				break
			}
			delete(f.byKey, other)
		}
		f.byKey[key] = new(fuse)
	}
	f.byKey[key].failed(now, cause)
}

// mended forgets the failures of keys, or of all when none is given.
func (f *fuses) mended(keys ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(keys) == 0 {
		clear(f.byKey)
	}
	for _, key := range keys {
		delete(f.byKey, key)
	}
}
