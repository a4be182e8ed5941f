//go:build !linux

package process

import "context"

// FollowNice does nothing: nice values count between sessions.
func (p *Process) FollowNice(context.Context) {}
