package standby

import (
	"math/rand/v2"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// Weaknesses that TestControl must detect.
var (
	// A standby that takes over repeats what the destination had before its claim.
	listsTooEarly = rig.Weakness{
		File: "internal/backup/standby.go",
		Old:  "\tif id, c, err = s.service.putOwner(ctx, current); err != nil {\n",
		New:  "\tif id, _, err = s.service.putOwner(ctx, current); err != nil {\n",
	}
	// A standby leaves out the newest segment. Its check, which would restore the store, is switched off too.
	skipsLast = rig.Weakness{
		File: "internal/backup/standby.go",
		Old:  "\tfor _, step := range steps {\n",
		New:  "\tfor _, step := range steps[:max(0, len(steps)-1)] {\n",
	}
	comparesNothing = rig.Weakness{
		File: "internal/backup/standby.go",
		Old:  "\tif err == nil && (have != last ",
		New:  "\tif err == nil && have < 0 && (have != last ",
	}
	// An owner acknowledges commits without reading the owner after them.
	forgetsOwner = rig.Weakness{
		File: "internal/backup/copy.go",
		Old:  "\tif err == nil && c.unowned {",
		New:  "\tif err == nil && c.unowned && c.commits < 0 {",
	}
	// A fenced owner replaces its store, with the commits that the destination lacks.
	keepsNothing = rig.Weakness{
		File: "internal/backup/standby.go",
		Old:  "\tif unchanged && o.Commits <= max(c.lastOf(id), c.lastOf(o.Timeline)) {",
		New:  "\tif unchanged || o.Holder {",
	}
)

// controlRounds is how often a control is repeated until the harness detects it.
const controlRounds = 40

// TestControl shows that the harness detects weak programs. Its short form builds only two of them.
func TestControl(t *testing.T) {
	controls := []struct {
		name string
		setup
		run  func(c *cluster, owner, standby *machine)
		weak []rig.Weakness
	}{
		{"lists too early", setup{bucket: true, sync: true}, lateClaim, []rig.Weakness{listsTooEarly}},
		{"skips the last segment", setup{sync: true}, killOwner, []rig.Weakness{skipsLast, comparesNothing}},
		{"forgets the owner", setup{bucket: true, sync: true}, lateClaim, []rig.Weakness{forgetsOwner}},
		{"keeps nothing", setup{}, killOwner, []rig.Weakness{keepsNothing}},
	}
	if !*long {
		controls = controls[:2]
	}
	for _, control := range controls {
		t.Run(control.name, func(t *testing.T) {
			t.Parallel()
			program := rig.Build(t, append(control.weak, rig.HastyMerges...)...)
			random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
			control.failover = 2 * time.Second
			c := newCluster(t, program, random, control.setup)
			for range controlRounds { // what a weak program loses may not be acknowledged yet
				c.round(kind{name: control.name, run: control.run})
				c.check(c.settle())
				if err := c.violated(); err != nil {
					t.Logf("detected: %v", err)
					return
				}
			}
			t.Errorf("the harness has not detected it in %d rounds", controlRounds)
		})
	}
}
