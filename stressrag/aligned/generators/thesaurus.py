"""Everyday English words that questions and passages use for one another.

A language model knows that *what does it cost* is answered by *the charge is*; a reader without one needs a
list. Each line is a set of words of about one meaning; a word may stand in several. Stems are compared.
"""

from __future__ import annotations

from functools import lru_cache

_LINES = """
cost price charge fee fare pay paid tariff rate expense payment money sum bill
free gratis nothing complimentary waive
buy purchase bought sold sell sale sells shop store article item goods
rent hire charter lease borrow lend loan
refund repay reimburse compensation compensate claim back return
fine penalty surcharge supplement extra added additional
cheap reduction discount concession reduced rebate lower less
ticket pass card coupon voucher
reserve booking book reservation
cancel call off dropped abandon scrapped
car automobile vehicle motor van motorist driver drive
lorry truck trailer hgv freight
bus coach minibus shuttle
train railway rail station
bicycle bike cycle cyclist
ship boat vessel ferry steamer craft launch
aeroplane plane aircraft flight fly
voyage crossing passage trip journey sailing travel ride cross sail
walk foot walking pedestrian stroll march
road street lane way path track route
leave depart departure start begin go sail out
arrive reach arrival come land landing
late delay delayed behind overdue lateness
early before ahead advance
fast speed quick rapid swift
wait hold held waiting stay remain
stop halt cease end finish close shut
open begin start launch commence
harbour port quay pier jetty dock berth wharf slip
sea ocean water bay sound strait
island isle islet islander islands
coast shore beach mainland seaside ashore
storm gale wind weather blow
rain wet snow ice frost winter
fog mist haze visibility
sun sunny summer
captain master skipper commander
sailor seaman crew deckhand mate steward staff employee worker personnel
engineer mechanic technician fitter
manager head director chief boss leader superintendent chairman
doctor physician surgeon nurse medical clinic surgery patient
teacher pupil school class schoolchildren children child kid
young youth junior teenager boy girl
old elderly pensioner senior aged age
adult grown person people human being somebody someone man woman
passenger traveller traveler rider guest visitor tourist tripper
resident local inhabitant native villager living
baby infant pram buggy pushchair
family parent mother father son daughter
disabled disability wheelchair mobility handicap
dog pet animal terrier puppy hound
cow cattle livestock sheep animals
bird puffin gull seabird colony
fish salmon herring catch haddock fishing
food meal dish eat dinner lunch breakfast canteen restaurant cafe kitchen galley
drink beer coffee tea whisky wine bar pub
bread baker bakery flour loaf cake
bed hotel room lodging inn night accommodation sleep
toilet lavatory washroom wc bathroom
seat chair bench recliner lounge sit
quiet silent silence still noise noiseless
phone telephone call ring dial mobile
internet wireless wifi wi-fi network online web website
letter write post mail e-mail email message written
sign notice board poster announce announcement
say tell speak voice read told said
name called call named title known
mark symbol badge emblem logo spot
picture pictured image photograph photo drawing shown printed
engraved inscribed inscription carved
colour color paint painted hue coat coated
made make material wool wood canvas metal cloth fabric built
build building construct construction work works
old former earlier previous formerly ex
new recent latest fresh replacement
big large great largest biggest huge size
small little tiny smallest short
wide width broad widest breadth across
long length longest
high height tall highest
deep depth draught
heavy weigh weight mass load carry lift
steep slope gradient ramp incline walkway gangway
most maximum limit highest largest up top
least minimum fewest lowest
many number count counted total
half quarter third part share portion
first earliest original initial
last final latest end
day daily date weekday
week weekly weekend
month monthly
year yearly annual season
hour hourly minute time clock
nowadays now today currently present
often frequent frequency every each interval
break broke broken fault fail failed failure defect breakdown damage crack
repair mend fix refit overhaul maintenance overhauled service
engine motor machine machinery gearbox generator
fuel oil diesel petrol burn consumption
electricity electric power current charge battery cable
fire burn smoke smoulder flame
cause reason because why due blame owing
clog block blocked jam jammed obstruct clogged
hit strike struck collide collision
find found discover discovered
lose lost missing property
fetch collect collected pick retrieve bring brought rescue
carry transport take convey ship bring
keep kept store stored storage hold
throw discard dispose away destroy
give hand gift donate donated
clean wash cleaning cleaned
safe safety secure security emergency
danger dangerous hazardous explosive explosives
police constable officer authority
rule regulation condition requirement must required obliged
allowed permit permitted may leave permission permit
forbidden prohibited ban banned not
ask request apply application applied
answer reply respond response
complaint complain grievance
decide decision settle settled agree agreed approve
owner own belong owned
company firm operator business corporation line
contractor builder supplier firm
town city village place
committee council board meeting
vote election elected chosen choose win won
idea thought suggest suggestion propose invented
help assist assistance aid
replace substitute instead stand replaces runs
ill sick tablets medicine medication pills drug
money cash banknote note coin notes coins
language word speech
music song play band concert
report record statement
temperature degrees heat hot cold warm
leftover remaining left remainder surplus spare
ring jewellery brooch
hat clothing clothes coat
luggage baggage bag suitcase
key lock locked
lamp light lantern lit
shift duty roster
"""


@lru_cache(1)
def _groups() -> dict[str, frozenset[str]]:
    from stressrag.aligned.generators.question import stem

    found: dict[str, set[str]] = {}
    for line in _LINES.split("\n"):
        group = {stem(word) for word in line.split()}
        for word in group:
            found.setdefault(word, set()).update(group)
    return {word: frozenset(group - {word}) for word, group in found.items()}


def relatives(stem: str) -> frozenset[str]:
    """The stems of words of about the same meaning."""
    return _groups().get(stem, frozenset())
