package consent

import (
	"maps"
	"slices"

	"github.com/exthost/exthost/protocol"
)

// Trusted is an extension that the user trusts, in the state that the verdict describes, and its granted secrets.
type Trusted struct {
	ID      string
	Verdict *Verdict
	Secrets []string
}

// Trust records what the user trusts, and sets the records of the verdicts to what is stored then. Changes of files
// made after the verdicts are not included. What other programs have stored in the records since stays, and a record
// that was revoked since is an error.
func (s Store) Trust(list ...Trusted) error {
	folders := map[string][]Trusted{} // all extensions of a folder share one record
	for _, t := range list {
		dir := t.Verdict.Record.Dir
		folders[dir] = append(folders[dir], t)
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		of := folders[dir]
		v := of[0].Verdict
		err := s.accept(v, func(now *Record) {
			if !v.kept || !now.sameTrust(v.Record) {
				now.Trust(v.Files)
				now.Project = v.project
			}
			for _, t := range of {
				now.Grant(t.ID, t.Secrets...)
			}
		})
		if err != nil {
			return err
		}
		for _, t := range of {
			t.Verdict.Record, t.Verdict.before = v.Record, v.before
		}
	}
	return nil
}

// TrustConfiguration is [Store.Trust] for the configuration of a working directory. rules are its policies and hooks.
func (s Store) TrustConfiguration(v *Verdict, rules []string) error {
	return s.accept(v, func(now *Record) {
		now.Trust(v.Files)
		now.Rules = rules
	})
}

// accept has apply change the record of v as it is now: a person may have been asked since v was made. It refuses a
// record that was revoked meanwhile.
func (s Store) accept(v *Verdict, apply func(now *Record)) error {
	shown := v.Record
	var before, after *Record
	err := s.Change(shown.Dir, shown.Kind, func(now *Record) error {
		if now.Revoked && now.stored != shown.stored {
			return protocol.Errorf(protocol.Untrusted, "%s: the agreement was revoked after this was shown, and stays "+
				"revoked; exthost trust shows it again", shown.Dir)
		}
		before, after = now.clone(), now
		apply(now)
		return nil
	})
	if err == nil {
		v.before, v.Record = before, after
	}
	return err
}

// clone returns a copy that stays as it is when r is changed.
func (r *Record) clone() *Record {
	c := *r
	c.Secrets = maps.Clone(r.Secrets) // Grant replaces its lists
	return &c
}

// Undo takes back what [Store.Trust] has recorded for the folder of v. Secrets that others have granted since stay
// granted, and if others have agreed or revoked since, all stays as it is.
func (s Store) Undo(v *Verdict) error {
	before, after := v.before, v.Record
	if before == nil {
		return nil
	}
	return s.Change(after.Dir, after.Kind, func(now *Record) error {
		if !now.sameTrust(after) {
			return nil
		}
		now.Trusted, now.Files, now.Revoked = before.Trusted, before.Files, before.Revoked
		now.Rules, now.Project = before.Rules, before.Project
		for id, names := range after.Secrets {
			granted := slices.DeleteFunc(slices.Clone(names),
				func(name string) bool { return slices.Contains(before.Secrets[id], name) })
			if len(granted) > 0 {
				now.Withdraw(id, granted...)
			}
		}
		return nil
	})
}
