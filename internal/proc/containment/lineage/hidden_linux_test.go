package lineage

import "testing"

func TestHiding(t *testing.T) {
	const other = "27 1 0:2 / / rw - ext4 /dev/vda rw\n"
	for mounts, want := range map[string]string{
		other + "22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw\n": "",
		other + "22 27 0:21 / /proc rw - proc proc rw,gid=4,hidepid=2\n":   "hidepid=2",
		other + "22 27 0:21 / /proc rw - proc proc rw,hidepid=invisible\n": "hidepid=invisible",
		other + "22 27 0:21 / /proc rw - proc proc rw,hidepid=off\n":       "",
		other + "22 27 0:21 / /mnt/proc rw - proc proc rw,hidepid=2\n":     "",
		"22 27 0:21 / /proc rw - proc proc rw,hidepid=2\n23 22 0:22 / /proc rw - proc proc rw\n" + other +
			"a line\n - b c\n": "",
	} {
		if got := hidingIn(mounts); got != want {
			t.Errorf("%q in %s", got, mounts)
		}
	}
}
