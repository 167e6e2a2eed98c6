// kafkajs; see common.py.
const { ConfigResourceTypes, Kafka, Partitioners, logLevel } = require("kafkajs");

const [verb, bootstrap, topic, count] = process.argv.slice(2);
const kafka = new Kafka({
  clientId: "kafkajs",
  brokers: bootstrap.split(","),
  logLevel: logLevel.NOTHING,
  retry: { retries: 100, initialRetryTime: 100, maxRetryTime: 1000 },
});
const partitioner = { createPartitioner: Partitioners.DefaultPartitioner };
const group = { groupId: topic, sessionTimeout: 6000, heartbeatInterval: 1000 };
const say = (facts) => console.log(JSON.stringify(facts));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const values = (kind) => Array.from({ length: +count }, (_, number) => `${kind} ${number}`);
const messages = (kind) => values(kind).map((value) => ({ value, key: value }));

async function until(ready, patience = 60000) {
  const deadline = Date.now() + patience;
  while (!ready() && Date.now() < deadline) await pause(100);
}

async function produce() {
  const producer = kafka.producer({ ...partitioner, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  await producer.send({ topic, messages: messages("plain") });
  await producer.disconnect();
  const transactional = kafka.producer({
    ...partitioner, transactionalId: topic, idempotent: true, maxInFlightRequests: 1,
  });
  await transactional.connect();
  for (const [kind, end] of [["committed", "commit"], ["aborted", "abort"]]) {
    const transaction = await transactional.transaction();
    await transaction.send({ topic, messages: messages(kind) });
    await transaction[end]();
  }
  await transactional.disconnect();
}

async function consumer(note, joined) {
  const member = kafka.consumer(group);
  member.on(member.events.GROUP_JOIN, joined);
  await member.connect();
  await member.subscribe({ topic, fromBeginning: true });
  await member.run({ eachMessage: async ({ message }) => note(message.value.toString()) });
  return member;
}

async function errand() {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: 3, replicationFactor: 3 }] });
  await produce();
  const seen = new Set();
  const members = [];
  let size = 0;
  for (let number = 0; number < 2; number++) members.push(await consumer((value) => seen.add(value), () => {}));
  const wanted = [...values("plain"), ...values("committed")];
  await until(() => wanted.every((value) => seen.has(value)));
  for (let tries = 0; tries < 100 && size < 2; tries++) {
    size = (await admin.describeGroups([topic])).groups[0].members.length;
    await pause(100);
  }
  const cluster = await admin.describeCluster();
  const { groups } = await admin.listGroups();
  if (!groups.some((each) => each.groupId == topic)) throw new Error("the group is not listed");
  await admin.describeConfigs({
    includeSynonyms: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
  });
  for (const member of members) await member.disconnect();
  await admin.deleteTopics({ topics: [topic] });
  await admin.disconnect();
  const brokers = cluster.brokers.map(({ nodeId, host, port }) => [nodeId, host, port]);
  say({ brokers, members: size, consumed: [...seen].sort() });
}

async function endure() {
  const acknowledged = new Set();
  const consumed = new Set();
  let producing = true;
  process.stdin.on("end", () => { producing = false; }).resume();
  const report = setInterval(() => say({ acknowledged: acknowledged.size, consumed: consumed.size }), 500);
  const member = await consumer((value) => consumed.add(+value), () => {});
  const producer = kafka.producer({ ...partitioner, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (let number = 0; producing; number++) {
    // with a key: without one it retries in another partition, with a sequence number already used there; if the
    // response was lost, the record is stored, and the next record of that partition is dropped as a duplicate
    await producer.send({ topic, messages: [{ key: `${number}`, value: `${number}` }] }).then(
      () => acknowledged.add(number), () => {});
    await pause(20);
  }
  const missed = () => [...acknowledged].filter((number) => !consumed.has(number));
  await until(() => !missed().length);
  clearInterval(report);
  await producer.disconnect();
  await member.disconnect();
  say({ missed: missed() });
}

(verb == "errand" ? errand() : endure()).then(
  () => process.exit(0), (error) => { console.error(error); process.exit(1); });
