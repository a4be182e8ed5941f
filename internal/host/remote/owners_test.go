package remote

import (
	"fmt"
	"slices"
	"testing"
)

// Remembered absent extensions are bounded per node and in total, even if each node stays below its bound. Those
// absent longest are forgotten.
func TestAbsentOwnersAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes, each, tools, want int
	}{
		"one node, many ids":    {1, 300, 0, 256},
		"one node, many tools":  {1, 100, 100, 20},
		"many nodes":            {1000, 10, 0, 4096},
		"many nodes with tools": {1000, 10, 100, 320},
		"few":                   {3, 10, 10, 30},
	} {
		o := make(owners)
		for n := range tt.nodes {
			for i := range tt.each {
				o[fmt.Sprintf("n%04d.x%03d", n, i)] = &owner{
					node:  fmt.Sprint(n),
					tools: tt.tools,
					round: uint64(n),
				}
			}
		}
		ids := o.absent(uint64(tt.nodes))
		last := fmt.Sprintf("n%04d.x000", tt.nodes-1)
		if len(ids) != tt.want || len(o) != tt.want || !slices.Contains(ids, last) {
			t.Errorf("%s: %d ids of %d owners, want %d", name, len(ids), len(o), tt.want)
		}
	}
}
