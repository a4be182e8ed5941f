package sweep

import "testing"

// Marks name a host, a containment and a child, and are below the level of the host.
func TestMarksNameTheChild(t *testing.T) {
	const unlimited = ^uint64(0)
	host := marksOf(4194303, 1<<40+5, unlimited)
	inner := marksOf(7, 9, host.Containment(3).Child(9).First)
	if Level(unlimited) != 7 || Level(host.First) != 6 || Level(host.Last) != 6 || Level(inner.First) != 5 ||
		host.pid() != 4194303 || inner.pid() != 7 {
		t.Errorf("host %x, inner %x", host, inner)
	}
	for _, m := range []Marks{
		host.Containment(1),
		host.Containment(MaxContainment),
		host.Containment(3).Child(MaxChild),
	} {
		if !host.Has(m.First) || !host.Has(m.Last) || inner.Has(m.First) {
			t.Errorf("%x is not of %x", m, host)
		}
	}
	if host.Containment(3).Has(host.Containment(4).First) ||
		host.Containment(3).Child(1).Has(host.Containment(3).Child(2).First) {
		t.Error("two containments or children have one mark")
	}
	// a limit with no level below
	for _, none := range []Marks{marksOf(7, 9, 5), marksOf(7, 9, 5).Containment(1).Child(1)} {
		if none.Has(0) || none.Has(5) || none != (Marks{}) {
			t.Errorf("marks without a limit: %x", none)
		}
	}
}
