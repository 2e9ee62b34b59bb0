package console

import (
	"context"
	"net/url"
	"strconv"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// webhooks is the content of the page of webhooks.
type webhooks struct {
	admin.DeadLetterPage

	List  []admin.Webhook
	Pager pager
}

const deadOnPage = 50

func (c *Console) showWebhooks(call *server.Call, fault *plant.Error) error {
	list, err := c.Operations.Webhooks(call.Context(), admin.ListQuery{Limit: admin.PageMax})
	if err != nil {
		return err
	}
	page := admin.ListQuery{Cursor: cursorOf(call.Request), Limit: deadOnPage}
	dead, err := c.Operations.DeadLetters(call.Context(), page)
	if err != nil {
		return err
	}
	pager := newPager(call.Request, "dead letters", "/webhooks", len(dead.DeadLetters), dead.Next)
	v := view{
		Title: "Webhooks", Address: "/webhooks", Notice: deadNotice(call.URL.Query()), Fault: fault,
		Content: webhooks{dead, list.Webhooks, pager},
	}
	return c.render(call, v.status(), "webhooks", v)
}

// deadNotice returns the result of a change of dead letters; empty without one.
func deadNotice(q url.Values) string {
	n, err := strconv.ParseUint(q.Get("n"), 10, 32)
	texts, known := map[string][2]string{ // for one dead letter and for several
		"retry": {
			"1 dead letter is due now. The server delivers it.", " dead letters are due now. The server delivers them.",
		},
		"drop": {"1 dead letter was removed.", " dead letters were removed."},
	}[q.Get("done")]
	switch {
	case err != nil || !known:
		return ""
	case n == 0:
		return "No dead letter was changed: the address was removed, or another change came first."
	case n == 1:
		return texts[0]
	}
	return formatCount(float64(n)) + texts[1]
}

// changeDead returns a function that changes the dead letters of a form.
func changeDead(
	done string, change func(context.Context, admin.DeadSelection, audit.Origin) (admin.DeadLettersChanged, error),
) server.HandlerFunc {
	return func(call *server.Call) error {
		selection, err := deadSelection(call.Form)
		if err != nil {
			return err
		}
		const callsMax = 100 // each one is a transaction of at most store.ChangeMax dead letters
		changed := int64(0)
		for more, calls := true, 0; more && calls < callsMax; calls++ {
			result, err := change(call.Context(), selection, call.Origin())
			if err != nil {
				return err
			}
			changed += result.DeadLetters
			more = result.More
		}
		redirect(call, "/webhooks?done="+done+"&n="+strconv.FormatInt(changed, 10))
		return nil
	}
}

// deadSelection returns the dead letters that a form selects: one, all of a webhook, or all.
func deadSelection(form url.Values) (d admin.DeadSelection, err error) {
	for name, id := range map[string]**int64{"webhook": &d.WebhookID, "plant": &d.PlantID} {
		if !form.Has(name) {
			continue
		}
		n, err := strconv.ParseInt(form.Get(name), 10, 64)
		if err != nil {
			return d, plant.InvalidInput("%s must be a whole number; got %.100q", name, form.Get(name))
		}
		*id = &n
	}
	d.All = form.Has("all")
	return d, nil
}
