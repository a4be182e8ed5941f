package helper

import (
	"maps"
	"testing"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

// A guardian does not grow with the number of children that its host has started.
func TestRecord(t *testing.T) {
	q := sweep.Sweeper{Known: make(map[int]uint64)}
	for _, line := range []string{"marks 18000000000000000000 18000000000000000001", "host a.1. 7", "", "+", "+ 5",
		"? 5 6", "+ 10 11", "+ 12 13", "+ 14 15", "- 12 13"} {
		record(&q, []byte(line))
	}
	if q.Marks != (sweep.Marks{First: 18e18, Last: 18e18 + 1}) || string(q.Mark) != "a.1." || q.Since != 7 ||
		!maps.Equal(q.Known, map[int]uint64{10: 11, 14: 15}) {
		t.Errorf("it knows %v, %s, %d, %v", q.Marks, q.Mark, q.Since, q.Known)
	}
	begun, ended := []byte("+ 10000 12345678901"), []byte("- 10000 12345678901")
	if n := testing.AllocsPerRun(1000, func() { record(&q, begun); record(&q, ended) }); n > 0 {
		t.Errorf("%v allocations for a child", n)
	}
}
