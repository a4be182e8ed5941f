package watch

import (
	"testing"
	"time"
)

func TestDebouncer(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(1_000_000 + int64(ms)) }
	for _, tt := range []struct {
		name     string
		debounce time.Duration
		changed  int // time of the last change; 0: none
		events   []int
		want     int // 0: no check
	}{
		{"nothing", 500 * time.Millisecond, 0, nil, 0},
		{"one save", 500 * time.Millisecond, 0, []int{100}, 600},
		{"a save of three writes", 500 * time.Millisecond, 0, []int{100, 150, 400}, 900},
		{"a storm is looked at before its end", 500 * time.Millisecond, 0, []int{100, 500, 4900, 5090}, 5100},
		{"a change is left its five seconds", 500 * time.Millisecond, 50, []int{100}, 5050},
		{"long after it", 500 * time.Millisecond, 50, []int{9000}, 9500},
		{"an author at work", 10 * time.Millisecond, 50, []int{200}, 210},
		{"an author's editor", 10 * time.Millisecond, 50, []int{100}, 150},
		{"no debounce", 0, 50, []int{60}, 150},
		{"a long debounce", 20 * time.Second, 50, []int{100}, 5100},
	} {
		d := debouncer{debounce: tt.debounce}
		if tt.changed > 0 {
			d.changed(at(tt.changed))
		}
		for _, ms := range tt.events {
			d.event(at(ms))
		}
		due, any := d.due()
		if any != (tt.want > 0) || any && !due.Equal(at(tt.want)) {
			t.Errorf("%s: %v, %v; want %d ms", tt.name, due.Sub(at(0)), any, tt.want)
		}
		if first := d.take(); any && !first.Equal(at(tt.events[0])) {
			t.Errorf("%s: the first event was at %v", tt.name, first)
		}
		if _, again := d.due(); again {
			t.Errorf("%s: due again", tt.name)
		}
	}
}
