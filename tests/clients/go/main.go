// Uses Drover's HTTP API with the published Go client of Nomad's API, as existing programs do: registers a job, lists it,
// waits for changes, reads allocations, files and logs, and follows the event stream.
//
// NOMAD_ADDR names the server. The program exits with status 1 at the first unexpected result.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

const (
	jobID    = "go-client"
	taskName = "greet"
	greeting = "hello from the Go client"
	// The timeout of each step.
	timeout = 60 * time.Second
	// How long one blocking query waits.
	wait = 20 * time.Second
)

func main() {
	client, err := api.NewClient(api.DefaultConfig())
	must("make a client", err)
	ctx, cancel := context.WithTimeout(context.Background(), 3*timeout)
	defer cancel()

	checkCluster(client)
	events := follow(ctx, client)
	evalID := register(client)
	list(client)
	blockingRead(client)
	alloc := running(client)
	files(client, alloc)
	logs(ctx, client, alloc)
	restart(client, alloc)
	evaluation(client, evalID)
	deployment(client)
	awaitEvents(ctx, events)
	deregister(client)
	say("all checks passed")
}

func say(format string, values ...any) {
	fmt.Printf(format+"\n", values...)
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

func must(what string, err error) {
	if err != nil {
		fail("cannot %s: %v", what, err)
	}
}

func expect(holds bool, format string, values ...any) {
	if !holds {
		fail(format, values...)
	}
}

func pointer[T any](value T) *T {
	return &value
}

func job(version string) *api.Job {
	script := fmt.Sprintf("echo %s; exec sleep 600", greeting)
	task := &api.Task{
		Name:      taskName,
		Driver:    "raw_exec",
		Config:    map[string]any{"command": "/bin/sh", "args": []string{"-c", script}},
		Resources: &api.Resources{CPU: pointer(50), MemoryMB: pointer(32)},
	}
	return &api.Job{
		ID:          pointer(jobID),
		Name:        pointer(jobID),
		Type:        pointer("service"),
		Datacenters: []string{"dc1"},
		Meta:        map[string]string{"version": version},
		Update: &api.UpdateStrategy{
			HealthCheck:    pointer("task_states"),
			MinHealthyTime: pointer(200 * time.Millisecond),
		},
		TaskGroups: []*api.TaskGroup{{Name: pointer("greeters"), Count: pointer(1), Tasks: []*api.Task{task}}},
	}
}

func checkCluster(client *api.Client) {
	leader, err := client.Status().Leader()
	must("ask for the leader", err)
	expect(leader != "", "no leader")
	regions, err := client.Regions().List()
	must("list regions", err)
	expect(len(regions) == 1 && regions[0] == "global", "regions: %v", regions)
	health, err := client.Agent().Health()
	must("ask for the agent's health", err)
	expect(health.Server != nil && health.Server.Ok, "the server is not healthy")
	_, err = client.Agent().Members()
	must("list members", err)
	config, _, err := client.Operator().SchedulerGetConfiguration(nil)
	must("read the scheduler's configuration", err)
	expect(config.SchedulerConfig.SchedulerAlgorithm == api.SchedulerAlgorithmBinpack, "not bin packing")
	nodes, _, err := client.Nodes().List(nil)
	must("list nodes", err)
	expect(len(nodes) > 0 && nodes[0].Status == "ready", "no node is ready")
	node, _, err := client.Nodes().Info(nodes[0].ID, nil)
	must("read a node", err)
	expect(node.HTTPAddr != "", "the node has no address")
	say("the cluster has %d node(s)", len(nodes))
}

func follow(ctx context.Context, client *api.Client) <-chan *api.Events {
	topics := map[api.Topic][]string{
		api.TopicJob:        {jobID},
		api.TopicEvaluation: {"*"},
		api.TopicAllocation: {"*"},
	}
	events, err := client.EventStream().Stream(ctx, topics, 0, nil)
	must("follow events", err)
	return events
}

func register(client *api.Client) string {
	validated, _, err := client.Jobs().Validate(job("one"), nil)
	must("validate the job", err)
	expect(validated.Error == "", "the job is not valid: %s", validated.Error)
	planned, _, err := client.Jobs().Plan(job("one"), true, nil)
	must("plan the job", err)
	expect(planned.Diff.Type == "Added", "the diff of the plan is %q", planned.Diff.Type)
	registered, meta, err := client.Jobs().Register(job("one"), nil)
	must("register the job", err)
	expect(registered.EvalID != "" && meta.LastIndex > 0, "no evaluation, or no index")
	_, _, err = client.Jobs().EnforceRegister(job("one"), 1, nil)
	expect(err != nil && strings.Contains(err.Error(), api.RegisterEnforceIndexErrPrefix), "enforced: %v", err)
	say("registered %s at index %d", jobID, registered.JobModifyIndex)
	return registered.EvalID
}

func list(client *api.Client) {
	jobs, meta, err := client.Jobs().List(&api.QueryOptions{Prefix: "go-"})
	must("list jobs", err)
	expect(len(jobs) == 1 && jobs[0].ID == jobID, "%d jobs begin with go-", len(jobs))
	expect(meta.KnownLeader, "no known leader")
	filtered, _, err := client.Jobs().List(&api.QueryOptions{Filter: `ID == "unknown"`})
	must("list jobs with a filter", err)
	expect(len(filtered) == 0, "the filter lets %d jobs through", len(filtered))
	say("listed the job")
}

// Makes a blocking query that a later change wakes.
func blockingRead(client *api.Client) {
	_, meta, err := client.Jobs().Info(jobID, nil)
	must("read the job", err)
	type response struct {
		job  *api.Job
		meta *api.QueryMeta
		err  error
	}
	responses := make(chan response, 1)
	go func() {
		index := meta.LastIndex
		for {
			job, meta, err := client.Jobs().Info(jobID, &api.QueryOptions{WaitIndex: index, WaitTime: wait})
			if err != nil || *job.Version > 0 {
				responses <- response{job, meta, err}
				return
			}
			index = meta.LastIndex
		}
	}()
	_, _, err = client.Jobs().Register(job("two"), nil)
	must("register the job again", err)
	select {
	case response := <-responses:
		must("wait for the job", response.err)
		expect(response.meta.LastIndex > meta.LastIndex, "the index has not moved")
		expect(response.job.Meta["version"] == "two", "the job has version %q", response.job.Meta["version"])
	case <-time.After(timeout):
		fail("a blocking query was not woken")
	}
	versions, _, _, err := client.Jobs().Versions(jobID, true, nil)
	must("read the job's versions", err)
	expect(len(versions) == 2, "%d versions", len(versions))
	say("a blocking query was woken by a change")
}

// Waits until the allocation of the newest version runs, and returns it.
func running(client *api.Client) *api.Allocation {
	var index uint64
	for begun := time.Now(); time.Since(begun) < timeout; {
		stubs, meta, err := client.Jobs().Allocations(jobID, true, &api.QueryOptions{WaitIndex: index, WaitTime: wait})
		must("list allocations", err)
		for _, stub := range stubs {
			if stub.JobVersion == 1 && stub.ClientStatus == api.AllocClientStatusRunning {
				alloc, _, err := client.Allocations().Info(stub.ID, nil)
				must("read the allocation", err)
				expect(alloc.Job != nil && *alloc.Job.ID == jobID, "the allocation has no job")
				say("allocation %s runs on %s", alloc.ID[:8], alloc.NodeName)
				return alloc
			}
		}
		index = meta.LastIndex
	}
	fail("no allocation runs")
	return nil
}

func files(client *api.Client, alloc *api.Allocation) {
	entries, _, err := client.AllocFS().List(alloc, "/", nil)
	must("list files", err)
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name)
	}
	expect(strings.Contains(strings.Join(names, " "), taskName), "files: %v", names)
	// A task may run before it has written its output.
	var content []byte
	for begun := time.Now(); !strings.Contains(string(content), greeting) && time.Since(begun) < timeout; {
		reader, err := client.AllocFS().Cat(alloc, "alloc/logs/"+taskName+".stdout.0", nil)
		must("read a file", err)
		content, err = io.ReadAll(reader)
		must("read a file to its end", err)
	}
	expect(strings.Contains(string(content), greeting), "the file holds %q", content)
	say("read its files")
}

func logs(ctx context.Context, client *api.Client, alloc *api.Allocation) {
	cancel := make(chan struct{})
	defer close(cancel)
	frames, errors := client.AllocFS().Logs(alloc, true, taskName, "stdout", "start", 0, cancel, nil)
	var text strings.Builder
	for !strings.Contains(text.String(), greeting) {
		select {
		case frame, ok := <-frames:
			expect(ok, "the logs ended with %q", text.String())
			text.Write(frame.Data)
		case err := <-errors:
			fail("cannot follow logs: %v", err)
		case <-ctx.Done():
			fail("the logs hold %q", text.String())
		}
	}
	say("followed its logs")
}

func restart(client *api.Client, alloc *api.Allocation) {
	must("restart the task", client.Allocations().Restart(alloc, taskName, nil))
	for begun := time.Now(); time.Since(begun) < timeout; {
		again, _, err := client.Allocations().Info(alloc.ID, nil)
		must("read the allocation again", err)
		if state := again.TaskStates[taskName]; state != nil && state.Restarts == 1 && state.State == "running" {
			say("restarted its task")
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	fail("the task did not start again")
}

func evaluation(client *api.Client, id string) {
	eval, _, err := client.Evaluations().Info(id, nil)
	must("read the evaluation", err)
	expect(eval.Status == "complete", "the evaluation is %s", eval.Status)
	allocs, _, err := client.Evaluations().Allocations(id, nil)
	must("list the evaluation's allocations", err)
	expect(len(allocs) == 1, "the evaluation has %d allocations", len(allocs))
	say("read its evaluation")
}

func deployment(client *api.Client) {
	for begun := time.Now(); time.Since(begun) < timeout; {
		deployment, _, err := client.Jobs().LatestDeployment(jobID, nil)
		must("read the deployment", err)
		if deployment != nil && deployment.JobVersion == 1 && deployment.Status == api.DeploymentStatusSuccessful {
			say("its deployment is successful")
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	fail("the deployment is not successful")
}

// Waits until the stream has had events of the job and of its allocation.
func awaitEvents(ctx context.Context, events <-chan *api.Events) {
	wanted := map[string]bool{"JobRegistered": true, "PlanResult": true, "AllocationUpdated": true}
	for len(wanted) > 0 {
		select {
		case batch, ok := <-events:
			expect(ok, "the event stream ended; missing: %v", wanted)
			must("follow events", batch.Err)
			for _, event := range batch.Events {
				if event.Topic == api.TopicJob {
					job, err := event.Job()
					must("read an event's job", err)
					expect(*job.ID == jobID, "an event of job %q", *job.ID)
				}
				delete(wanted, event.Type)
			}
		case <-ctx.Done():
			fail("no events of %v", wanted)
		}
	}
	say("the event stream had all events")
}

func deregister(client *api.Client) {
	_, _, err := client.Jobs().Deregister(jobID, true, nil)
	must("deregister the job", err)
	_, _, err = client.Jobs().Info(jobID, nil)
	expect(err != nil && strings.Contains(err.Error(), "job not found"), "reading a purged job: %v", err)
	must("collect garbage", client.System().GarbageCollect())
	say("purged the job")
}
