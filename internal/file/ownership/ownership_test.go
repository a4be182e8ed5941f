package ownership

import (
	"io/fs"
	"testing"
)

func TestJudge(t *testing.T) {
	const dir, sticky = fs.ModeDir, fs.ModeDir | fs.ModeSticky
	me, root, sudo := user{1000, 1000}, user{0, 0}, user{0, 1000}
	for _, tt := range []struct {
		name string
		f    facts
		u    user
		want problem
	}{
		{"one's own", facts{1000, 1000, 0o644}, me, none},
		{"root's", facts{0, 0, 0o644}, me, none},
		{"root's, group root writes", facts{0, 0, 0o664}, me, none},
		{"another's", facts{1001, 1001, 0o644}, me, foreign},
		{"a user's, run by root", facts{1000, 1000, 0o644}, root, foreign},
		{"a user's, run by root after sudo", facts{1000, 1000, 0o644}, sudo, none},
		{"another's, run by root after sudo", facts{1001, 1001, 0o644}, sudo, foreign},
		{"everybody's", facts{1000, 1000, 0o666}, me, worldWritable},
		{"the private group's", facts{1000, 1000, 0o664}, me, none},
		{"a team's", facts{1000, 4294967000, 0o664}, me, groupWritable},
		{"a team's, read only", facts{1000, 4294967000, 0o644}, me, none},
		{"everybody's directory", facts{0, 0, dir | 0o777}, me, worldWritable},
		{"/tmp", facts{0, 0, sticky | 0o777}, me, none},
		{"another's /tmp", facts{1001, 0, sticky | 0o777}, me, foreign},
		{"a sticky file", facts{1000, 1000, fs.ModeSticky | 0o666}, me, worldWritable},
	} {
		if got := judge(tt.f, tt.u); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestQuoted(t *testing.T) {
	for path, want := range map[string]string{
		"/srv/a-b_1.d": "/srv/a-b_1.d",
		"/srv/a b":     "'/srv/a b'",
		"/it's":        `'/it'\''s'`,
	} {
		if got := quoted(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
