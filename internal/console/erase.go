package console

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// An operator corrects or erases the plant of a page, if it is still the one that the page shows. What a credential has
// created is erased in requests of a limited time: the page counts the plants, asks, and is shown again with the rest,
// so a lost connection loses nothing.

// shownPlant returns the plant of a form, unless it has changed since its page was shown.
func (c *Console) shownPlant(call *server.Call) (plant.Record, error) {
	record, err := c.plantOf(call)
	if err == nil && strconv.FormatInt(record.CreatedAt.UnixMicro(), 10) != call.Form.Get("created") {
		err = plant.Errorf(plant.CodePlantNotFound, "plant %d has changed; read it, and try again", record.ID)
	}
	return record, err
}

func (c *Console) correctPlant(call *server.Call) error {
	old, err := c.shownPlant(call)
	if err != nil {
		return err
	}
	oldTag, _ := old.Tag.Get()
	name, tag := entered(call.Form.Get("name"), old.Name), entered(call.Form.Get("tag"), oldTag)
	right := admin.Correction{Name: &name, Reason: call.Form.Get("reason")}
	if right.NoTag = tag == "" && !call.Form.Has("has-tag"); !right.NoTag {
		right.Tag = &tag
	}
	corrected, err := c.Operations.Correct(call.Context(), old.ID, right, call.Origin())
	done := "corrected"
	if corrected.CreatedAt.Equal(old.CreatedAt) {
		done = "unchanged"
	}
	return redirectAfter(call, err, fmt.Sprintf("/plants/%d?done=%s", old.ID, done))
}

// entered returns the text of an input that showed the old text. A browser removes the line ends of that.
func entered(text, old string) string {
	if text == strings.NewReplacer("\r", "", "\n", "").Replace(old) {
		return old
	}
	return text
}

func (c *Console) erasePlant(call *server.Call) error {
	shown, err := c.shownPlant(call)
	if err != nil {
		return err
	}
	e := admin.Erasure{IDs: []int64{shown.ID}, Reason: call.Form.Get("reason")}
	_, err = c.Operations.Erase(call.Context(), e, call.Origin())
	return redirectAfter(call, err, "/plants?done=erased")
}

// erasure is the content of the page that erases what a credential has created.
type erasure struct {
	admin.Credential

	Selected admin.Erasure // until the time of the count, so that nothing is erased that it does not have
	Erased   admin.Erased  // what would be; with Next, the count did not come to the end of the plants
}

// erasureOf returns the credential of a request, and what the form or the query selects.
func (c *Console) erasureOf(call *server.Call, form url.Values) (e erasure, err error) {
	all, err := c.Operations.Credentials(call.Context(), admin.CredentialQuery{})
	if err != nil {
		return e, err
	}
	id := call.PathValue("id")
	i := slices.IndexFunc(all.Credentials, func(t admin.Credential) bool { return strconv.FormatInt(t.ID, 10) == id })
	if i < 0 {
		return e, plant.Errorf(plant.CodeTokenNotFound, "no credential has the id %.100q", id)
	}
	of := all.Credentials[i]
	since, err := timeOf(form.Get("since"), of.CreatedAt.Truncate(time.Second))
	if err != nil {
		return e, err
	}
	until, err := timeOf(form.Get("until"), c.now())
	return erasure{of, admin.Erasure{
		Creator: new("id " + id), Since: &since, Until: &until, Cursor: form.Get("at"), Reason: form.Get("reason"),
	}, admin.Erased{}}, err
}

// timeOf returns the time of an input, which may omit the seconds; without is for an empty text.
func timeOf(text string, without time.Time) (t time.Time, err error) {
	if text == "" {
		return without.UTC(), nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.RFC3339} {
		if t, err = time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return t, plant.InvalidInput("the time must have the form 2026-11-22T09:30:00; got %.100q", text)
}

func (c *Console) showErasure(call *server.Call, fault *plant.Error) error {
	q := call.URL.Query()
	content, err := c.erasureOf(call, q)
	if err != nil {
		return err
	}
	dry := content.Selected
	dry.DryRun, dry.Until = true, nil
	if content.Erased, err = c.eraseParts(call, dry); err != nil {
		return err
	}
	v := view{Title: "Erase plants", Address: call.URL.Path, Content: content, Fault: fault}
	if n, err := strconv.ParseUint(q.Get("erased"), 10, 32); err == nil {
		v.Notice = counted(int(n), "plant") + " erased. Backups have what was erased until they are removed."
	}
	return c.render(call, v.status(), "erase", v)
}

func (c *Console) eraseCreated(call *server.Call) error {
	e, err := c.erasureOf(call, call.Form)
	if err != nil {
		return err
	}
	erased, err := c.eraseParts(call, e.Selected)
	return redirectAfter(call, err, call.URL.Path+"?"+url.Values{
		"since": {e.Selected.Since.Format(time.RFC3339)}, "at": {erased.Next}, "erased": {fmt.Sprint(erased.Plants)},
	}.Encode())
}

// eraseParts runs an erasure, or a dry run of it, to its end or for a limited time, which a proxy waits for.
func (c *Console) eraseParts(call *server.Call, e admin.Erasure) (sum admin.Erased, err error) {
	const timeMax, firstMax = 10 * time.Second, 10
	for end := c.now().Add(timeMax); err == nil; {
		var part admin.Erased
		part, err = c.Operations.Erase(call.Context(), e, call.Origin())
		sum.Plants += part.Plants
		sum.First = append(sum.First, part.First[:min(len(part.First), firstMax-len(sum.First))]...)
		if sum.Next, e.Cursor = part.Next, part.Next; part.Next == "" || c.now().After(end) {
			break
		}
	}
	return sum, err
}
