// Senders and a consumer that go on whatever happens to the broker.
'use strict';

const { eventually, message, sleep } = require('./clients');

const SENDERS = 4;
let running = null;

async function load(clients, lines) {
  const topic = clients.name('load');
  running = { isOn: true, acknowledged: new Set(), received: new Map(), failures: 0, disorder: 0, newest: {} };
  const producer = await clients.newProducer(clients.name('load-producer'), { sendMsgTimeout: 2000 });
  await clients.consumer(clients.name('load-group'), topic, '*', async found => receive(found));
  clients.closings = [];  // it goes on when this scenario ends
  running.senders = [];
  for (let sender = 0; sender < SENDERS; sender++) {
    running.senders.push(send(producer, topic, sender));
  }
  lines.push('started');
}

async function send(producer, topic, sender) {
  for (let number = 0; running.isOn; number++) {
    const key = `${sender}-${number}`;
    try {
      const result = await producer.send(message(topic, 'T', key, String(number)));
      if (result.sendStatus === 'SEND_OK') {
        running.acknowledged.add(key);
      }
      await sleep(2);
    } catch (error) {
      running.failures += 1;
      await sleep(100);
    }
  }
}

/** Of one sender what arrives from one queue for the first time is newer than what came before. */
function receive(found) {
  const times = running.received.get(found.keys) || 0;
  running.received.set(found.keys, times + 1);
  if (times > 0) {
    return;
  }
  const place = `${found.queueId}-${found.keys.split('-')[0]}`;
  const number = Number(found.body.toString());
  if (running.newest[place] > number) {
    running.disorder += 1;
  }
  running.newest[place] = number;
}

async function loaded(clients, lines) {
  lines.push(`${running.acknowledged.size} ${running.received.size} ${running.failures}`);
}

async function unload(clients, lines) {
  running.isOn = false;
  await Promise.all(running.senders);
  const lost = () => [ ...running.acknowledged ].filter(key => !running.received.has(key)).length;
  await eventually(() => lost() === 0);
  const queues = [ ...new Set(Object.keys(running.newest).map(place => Number(place.split('-')[0]))) ].sort();
  lines.push(`lost ${lost()}`, `out of order ${running.disorder}`, `queues ${JSON.stringify(queues)}`);
}

module.exports = { load, loaded, unload };
