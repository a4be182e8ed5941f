package supervisor

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// BreakerState is the state of a circuit breaker.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"    // calls pass
	BreakerOpen     BreakerState = "open"      // calls are refused
	BreakerHalfOpen BreakerState = "half_open" // one call, the probe, passes; others are refused
)

// outcome classifies the result of a call for the breaker.
type outcome int

const (
	succeeded outcome = iota // the instance answered
	faulted                  // no answer, or no usable one
	excluded                 // says nothing about the instance, such as a canceled call
)

var errFaulted, errExcluded = errors.New("faulted"), errors.New("excluded")

func (o outcome) err() error { return [...]error{nil, errFaulted, errExcluded}[o] }

// breaker refuses calls to an instance that keeps failing them. It wraps a gobreaker circuit with two additions. Each
// failed probe doubles the timeout, by a new circuit. A success on a closed breaker without faults, which is the usual
// case, costs nothing. It is guarded by the group's lock.
type breaker struct {
	Breaker
	name    string
	timeout time.Duration // of the current circuit
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]

	state       BreakerState
	epoch       uint64    // counts state changes; outcomes of calls from earlier epochs are ignored
	until       time.Time // open: when a probe may pass
	probing     bool      // half open: a probe is in flight
	lastFaulted bool      // closed: the latest outcome was a fault
}

// ticket belongs to an admitted call until the outcome of the call is reported.
type ticket struct {
	epoch uint64
	probe func(error) // nil unless the call is the probe
}

func newBreaker(name string, o Breaker) *breaker {
	return &breaker{Breaker: o, name: name, state: BreakerClosed}
}

// permits reports whether admit would let a call through.
func (b *breaker) permits(now time.Time) bool {
	switch b.state {
	case BreakerOpen:
		return !now.Before(b.until)
	case BreakerHalfOpen:
		return !b.probing
	}
	return true
}

// admit lets a call through. permits must have returned true.
func (b *breaker) admit() ticket {
	if b.state == BreakerClosed {
		return ticket{epoch: b.epoch}
	}
	done, err := b.circuit.Allow()
	if err != nil { // cannot happen: the circuit's clock is not behind the time given to permits
		panic("supervisor: breaker out of step: " + err.Error())
	}
	b.probing = true
	return ticket{epoch: b.epoch, probe: done}
}

// report counts the outcome of the call that was admitted with t.
func (b *breaker) report(t ticket, o outcome) {
	switch {
	case t.epoch != b.epoch:
	case t.probe != nil:
		b.reportProbe(t.probe, o)
	case o == faulted, o == succeeded && b.lastFaulted:
		b.lastFaulted = o == faulted
		b.record(o)
	}
}

func (b *breaker) reportProbe(done func(error), o outcome) {
	b.probing = false
	done(o.err())
	switch b.state {
	case BreakerOpen:
		b.newCircuit(min(2*b.timeout, b.MaxTimeout))
		for b.state != BreakerOpen {
			b.record(faulted)
		}
	case BreakerClosed:
		b.circuit, b.lastFaulted = nil, false
	}
}

// record counts an outcome on the closed circuit, which the first fault creates.
func (b *breaker) record(o outcome) {
	if b.circuit == nil {
		b.newCircuit(b.Timeout)
	}
	if done, err := b.circuit.Allow(); err == nil { // always nil, as the circuit is closed
		done(o.err())
	}
}

// newCircuit replaces the circuit with a closed one.
func (b *breaker) newCircuit(timeout time.Duration) {
	b.timeout, b.state = timeout, BreakerClosed
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         b.name,
		Timeout:      timeout - 1, // gobreaker permits a probe only after the timeout, this package at its end
		ReadyToTrip:  func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= b.Threshold },
		IsSuccessful: func(err error) bool { return err == nil },
		IsExcluded:   func(err error) bool { return err == errExcluded },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			b.onStateChange(to)
		},
	})
}

func (b *breaker) onStateChange(to gobreaker.State) {
	b.epoch++
	switch to {
	case gobreaker.StateOpen:
		b.state, b.until = BreakerOpen, time.Now().Add(b.timeout)
	case gobreaker.StateHalfOpen:
		b.state = BreakerHalfOpen
	case gobreaker.StateClosed:
		b.state = BreakerClosed
	}
}
