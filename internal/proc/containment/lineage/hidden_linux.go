package lineage

import (
	"os"
	"strings"

	"github.com/exthost/exthost/internal/file"
)

// Hiding explains why processes are not visible, and how to change that: /proc hides those of other users, or no
// descriptor is left to read it. It returns "" if neither is so.
func Hiding() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if file.Exhausted(err) {
		return NoDescriptor
	}
	if err != nil {
		return ""
	}
	option := hidingIn(string(mounts))
	if option == "" {
		return ""
	}
	return "/proc is mounted with " + option + ", which hides processes from the host; as root: mount -o remount," +
		option + ",gid=GROUP /proc, with a group that the host's user is in, then start the host again"
}

// hidingIn returns the mount option that hides processes, such as "hidepid=2", or "". It reads lines of mountinfo such
// as "22 27 0:21 / /proc rw - proc proc rw,hidepid=invisible". The last mount on /proc is the visible one.
func hidingIn(mounts string) (option string) {
	for line := range strings.Lines(mounts) {
		place, file, _ := strings.Cut(line, " - ")
		at, kind := strings.Fields(place), strings.Fields(file)
		if len(at) < 5 || at[4] != "/proc" || len(kind) < 3 || kind[0] != "proc" {
			continue
		}
		option = ""
		for o := range strings.SplitSeq(kind[2], ",") {
			if value, ok := strings.CutPrefix(o, "hidepid="); ok && value != "0" && value != "off" {
				option = o
			}
		}
	}
	return option
}
