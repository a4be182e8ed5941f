//go:build unix

package ownership

import (
	"fmt"
	"io/fs"
	"os"
	osuser "os/user"
	"strconv"
	"sync"
	"syscall"
)

func factsOf(info fs.FileInfo) (facts, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return facts{}, false
	}
	return facts{owner: st.Uid, group: st.Gid, mode: info.Mode()}, true
}

// self returns the user of this process. For root, that includes the user who called sudo.
var self = sync.OnceValue(func() user {
	u := user{id: uint32(os.Geteuid())}
	u.sudo = u.id
	if id, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32); err == nil && u.id == 0 {
		u.sudo = uint32(id)
	}
	return u
})

var privates sync.Map // [2]uint32{owner, group} to bool

// private reports whether group is the primary group of owner and has the same name, so that nobody else is in it.
// Results are cached.
func private(owner, group uint32) bool {
	key := [2]uint32{owner, group}
	if known, ok := privates.Load(key); ok {
		return known.(bool)
	}
	u, err := osuser.LookupId(fmt.Sprint(owner))
	yes := err == nil && u.Gid == fmt.Sprint(group)
	if yes {
		g, err := osuser.LookupGroupId(u.Gid)
		yes = err == nil && g.Name == u.Username
	}
	privates.Store(key, yes)
	return yes
}

func userName(id uint32) string {
	if u, err := osuser.LookupId(fmt.Sprint(id)); err == nil {
		return fmt.Sprintf("%s (uid %d)", u.Username, id)
	}
	return fmt.Sprintf("uid %d", id)
}

func groupName(id uint32) string {
	if g, err := osuser.LookupGroupId(fmt.Sprint(id)); err == nil {
		return fmt.Sprintf("%s (gid %d)", g.Name, id)
	}
	return fmt.Sprintf("gid %d", id)
}

// Own returns an error if another user than root owns or can write a file that this program wrote.
func Own(path string, info fs.FileInfo) error {
	f, ok := factsOf(info)
	switch {
	case ok && f.owner != 0 && int(f.owner) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, who can change it; remove it", path, f.owner)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s has mode %#o, so that others can write it; remove it", path, info.Mode().Perm())
	}
	return nil
}
