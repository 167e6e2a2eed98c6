// kafka-go of segmentio, through a proxy: the errand that ../../proxy/common.py describes, without transactions: its
// batches cannot have a producer ID. Arguments: errand, address, topic, count.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

const members = 2

var (
	address, topic = os.Args[2], os.Args[3]
	count          = must(strconv.Atoi(os.Args[4]))
	ctx, _         = context.WithTimeout(context.Background(), 90*time.Second)
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func produce() {
	writer := &kafka.Writer{Addr: kafka.TCP(address), Topic: topic, Balancer: &kafka.Hash{},
		RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond, Compression: kafka.Zstd,
		Transport: &kafka.Transport{ClientID: "kafka-go"}}
	messages := []kafka.Message{}
	for number := range count {
		value := fmt.Appendf(nil, "plain %d", number)
		messages = append(messages, kafka.Message{Key: value, Value: value})
	}
	// it may not know of the topic yet
	for writer.WriteMessages(ctx, messages...) != nil && ctx.Err() == nil {
		time.Sleep(200 * time.Millisecond)
	}
	check(writer.Close())
}

func main() {
	client := &kafka.Client{Addr: kafka.TCP(address), Transport: &kafka.Transport{ClientID: "kafka-go"}}
	made := must(client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 3, ReplicationFactor: 3}}}))
	check(made.Errors[topic])
	produce()
	var lock sync.Mutex
	seen := map[string]bool{}
	reading, leave := context.WithCancel(ctx)
	var done sync.WaitGroup
	dialer := &kafka.Dialer{ClientID: "kafka-go", Timeout: 10 * time.Second}
	for range members {
		done.Add(1)
		go func() {
			defer done.Done()
			reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{address}, GroupID: topic, Topic: topic,
				StartOffset: kafka.FirstOffset, MaxWait: 300 * time.Millisecond, Dialer: dialer})
			for reading.Err() == nil {
				message, err := reader.ReadMessage(reading)
				if err == nil {
					lock.Lock()
					seen[string(message.Value)] = true
					lock.Unlock()
				}
			}
			reader.Close()
		}()
	}
	size := 0
	for ctx.Err() == nil {
		described := must(client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{topic}})).Groups[0]
		size = len(described.Members)
		lock.Lock()
		complete := len(seen) == count
		lock.Unlock()
		if complete && size == members && described.GroupState == "Stable" {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	brokers := [][]any{}
	for _, node := range must(client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})).Brokers {
		host := node.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		brokers = append(brokers, []any{node.ID, host, node.Port})
	}
	listed := false
	for _, each := range must(client.ListGroups(ctx, &kafka.ListGroupsRequest{})).Groups {
		listed = listed || each.GroupID == topic
	}
	if !listed {
		log.Fatal("the group is not listed")
	}
	leave()
	done.Wait()
	must(client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}}))
	values := []string{}
	for value := range seen {
		values = append(values, value)
	}
	sort.Strings(values)
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"brokers": brokers, "members": size, "consumed": values}))
}
